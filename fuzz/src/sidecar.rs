//! Any bytes as a sidecar, and as an identity: refused with a reason, or read as the one file with
//! this content.

use super::{mend, meter};
use lsm_sieve_filter::filter::Stage;
use lsm_sieve_filter::hash::KeyHash;
use lsm_sieve_format::format::{self, FormatError, Sidecar, StageRecord};

/// The high byte of the flags, which a reader may ignore and a writer sets to zero.
const AT_IGNORED_FLAGS: usize = 11;

/// Reads the bytes as they are, and again with matching checksums.
pub fn run(bytes: &[u8]) {
    _ = read(bytes);
    _ = read(&mend::sidecar(bytes));
    identity(bytes);
    identity(&mend::identity(bytes));
}

/// The sidecar in these bytes, checked for the properties that every sidecar has.
pub fn read(bytes: &[u8]) -> Result<Sidecar, FormatError> {
    let allowed = meter::allowance(bytes.len());
    let decoded = meter::within(allowed, || format::decode(bytes));
    let verified = meter::within(allowed, || format::verify(bytes));
    match (&decoded, verified) {
        (Ok(sidecar), Ok(header)) => {
            assert_eq!(format::decode_header(bytes), Ok(header));
            if bytes[AT_IGNORED_FLAGS] == 0 {
                let again = format::encode(sidecar);
                assert_eq!(again.as_deref(), Ok(bytes), "one filter, one file");
            }
            sidecar.stages.iter().for_each(ask);
        }
        (Err(error), Err(same)) => assert_eq!(*error, same),
        (decoded, verified) => panic!("decoded: {decoded:?}, verified: {verified:?}"),
    }
    decoded
}

/// Any stage can be probed, or is refused.
fn ask(stage: &StageRecord) {
    let StageRecord {
        shape,
        items,
        words,
    } = stage.clone();
    let Ok(filter) = Stage::from_words(shape, items, words) else {
        return;
    };
    for hash in [0, 1, u64::MAX, 0x9e37_79b9_7f4a_7c15].map(KeyHash::new) {
        filter.may_contain(hash);
    }
    let rate = filter.predicted_rate();
    assert!(
        (0.0..=1.0).contains(&rate),
        "rate {rate} of {:?}",
        stage.shape
    );
}

fn identity(bytes: &[u8]) {
    let decoded = meter::within(meter::allowance(bytes.len()), || {
        format::decode_identity(bytes)
    });
    let Ok(identity) = decoded else { return };
    let again = format::encode_identity(&identity);
    let (ignored, reserved) = (AT_IGNORED_FLAGS..AT_IGNORED_FLAGS + 1, 49..56);
    if bytes[ignored.start..ignored.end]
        .iter()
        .chain(&bytes[reserved])
        .all(|&byte| byte == 0)
    {
        assert_eq!(again, bytes, "one identity, one file");
    }
}
