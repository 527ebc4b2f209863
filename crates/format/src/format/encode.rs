//! Encodes a sidecar block by block, without a second copy of the filter.

use super::blocks::BlockWriter;
use super::error::{FormatError, Part};
use super::header::{check_header, covered, sum_of_items};
use super::layout::{
    AT_COVERS, AT_ENTRIES, AT_FLAGS, AT_HASH, AT_HEADER_LENGTH, AT_KEY_SPACE, AT_KEYS,
    AT_KNOWN_ANSWER, AT_MAGIC, AT_PAYLOAD_LENGTH, AT_RATE, AT_SEED_ID, AT_SEGMENT, AT_SOURCE,
    AT_STAGES, AT_STORE, AT_SUBJECT, AT_TOTAL_LENGTH, AT_VERSION, CRC_BYTES, END_MAGIC,
    HAS_PREFIXES, MAGIC, PREFIX_NAME, PREFIX_NAME_LENGTH, PREFIX_VERSION, STAGE_BITS, STAGE_GROUPS,
    STAGE_ITEMS, STAGE_KIND, STAGE_PROBES, SUBJECT_SEGMENT, SUBJECT_SUMMARY, VERSION, check_length,
    header_bytes, number_of, payload_bytes, prefix_table_bytes, stage_at, total_bytes, words,
};
use super::sidecar::{Header, HeaderSubject, Sidecar, StageHeader, Subject};
use super::stored::Stored;
use crc32fast::Hasher;
use std::io::{self, Write};

/// Encodes a sidecar.
///
/// # Errors
/// The errors of [`Writer::new`], or if memory does not suffice.
pub fn encode<S: Stored>(sidecar: &Sidecar<S>) -> Result<Vec<u8>, FormatError> {
    let writer = Writer::new(sidecar)?;
    let mut file = reserve(writer.header.total_bytes)?;
    let written = writer.write(&mut file);
    written.expect("a vector takes what was reserved for it");
    Ok(file)
}

/// A sidecar that can be written. Its header was made and checked.
#[derive(Debug)]
pub struct Writer<'s, S> {
    sidecar: &'s Sidecar<S>,
    header: Header,
}

impl<'s, S: Stored> Writer<'s, S> {
    /// Checks the sidecar and makes its header.
    ///
    /// # Errors
    /// If [`super::decode`] would refuse the bytes: no stage or more than 32, a shape that no stage
    /// can have, or words that do not fill the shape.
    pub fn new(sidecar: &'s Sidecar<S>) -> Result<Self, FormatError> {
        let header = header_of(sidecar)?;
        Ok(Self { sidecar, header })
    }

    /// The header that the file will have.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Writes the file. If a stage takes keys meanwhile, each word is written with the value that
    /// it has at that time.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut check = Hasher::new();
        put_header(&self.header, out, &mut check)?;
        let mut check = put_payload(self.sidecar, out, check)?;
        let total = self.header.total_bytes.to_le_bytes();
        check.update(&total);
        out.write_all(&total)?;
        out.write_all(&check.finalize().to_le_bytes())?;
        out.write_all(&END_MAGIC)
    }
}

/// The header of this sidecar, checked as a reader would check it.
fn header_of<S: Stored>(sidecar: &Sidecar<S>) -> Result<Header, FormatError> {
    let subject = HeaderSubject::from(&sidecar.subject);
    let stages: Vec<StageHeader> = sidecar.stages.iter().map(Stored::header).collect();
    let payload = payload_bytes(covered(&subject), &stages).unwrap_or(u64::MAX);
    let prefixes = prefix_table_bytes(&sidecar.prefixes);
    let bytes = header_bytes(stages.len(), prefixes);
    let header = Header {
        store: sidecar.store,
        imprint: sidecar.imprint,
        subject,
        source: sidecar.source,
        entries: sidecar.entries,
        keys: sum_of_items(&stages),
        rate: sidecar.rate,
        prefixes: sidecar.prefixes.clone(),
        payload_bytes: payload,
        total_bytes: total_bytes(bytes, payload).unwrap_or(u64::MAX),
        stages,
    };
    check_header(&header)?;
    for (index, stage) in sidecar.stages.iter().enumerate() {
        let expected = words(stage.header().shape.bits.get());
        let found = stage.words().len() as u64;
        check_length("number of words", stage_at(index), found, expected)?;
    }
    Ok(header)
}

fn reserve(bytes: u64) -> Result<Vec<u8>, FormatError> {
    let mut file = Vec::new();
    usize::try_from(bytes)
        .ok()
        .and_then(|length| file.try_reserve_exact(length).ok())
        .ok_or(FormatError::Memory {
            part: Part::Payload,
            bytes,
        })?;
    Ok(file)
}

fn put_header(header: &Header, out: &mut dyn Write, check: &mut Hasher) -> io::Result<()> {
    let length = header.bytes();
    let mut bytes = vec![0; length - CRC_BYTES];
    let (subject, key_space, segment) = match header.subject {
        HeaderSubject::Segment(id) => (SUBJECT_SEGMENT, 0, *id.as_bytes()),
        HeaderSubject::Summary { key_space, .. } => (SUBJECT_SUMMARY, key_space, [0; 16]),
    };
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(AT_MAGIC, &MAGIC);
    put(AT_VERSION, &VERSION.to_le_bytes());
    let flags = if header.prefixes.is_empty() {
        0
    } else {
        HAS_PREFIXES
    };
    put(AT_FLAGS, &flags.to_le_bytes());
    put(
        AT_HEADER_LENGTH,
        &narrow::<u32>(length as u64).to_le_bytes(),
    );
    put(AT_TOTAL_LENGTH, &header.total_bytes.to_le_bytes());
    put(AT_STORE, header.store.as_bytes());
    put(AT_HASH, &[header.imprint.hash as u8]);
    put(AT_SUBJECT, &[subject]);
    put(AT_SOURCE, &[header.source as u8]);
    put(AT_STAGES, &[narrow(header.stages.len() as u64)]);
    put(AT_KEY_SPACE, &key_space.to_le_bytes());
    put(AT_SEED_ID, &header.imprint.seed_id.to_le_bytes());
    put(AT_KNOWN_ANSWER, &header.imprint.known_answer.to_le_bytes());
    put(AT_SEGMENT, &segment);
    put(AT_COVERS, &covered(&header.subject).to_le_bytes());
    put(AT_ENTRIES, &header.entries.to_le_bytes());
    put(AT_KEYS, &header.keys.get().to_le_bytes());
    put(AT_RATE, &header.rate.get().to_bits().to_le_bytes());
    put(AT_PAYLOAD_LENGTH, &header.payload_bytes.to_le_bytes());
    put_stages(&header.stages, &mut put);
    put_prefixes(header, &mut put);
    let crc = crc32fast::hash(&bytes).to_le_bytes();
    check.update(&crc);
    out.write_all(&bytes)?;
    out.write_all(&crc)
}

fn put_stages(stages: &[StageHeader], put: &mut impl FnMut(usize, &[u8])) {
    for (index, stage) in stages.iter().enumerate() {
        let at = stage_at(index);
        put(at + STAGE_KIND, &[number_of(stage.shape.kind)]);
        put(at + STAGE_GROUPS, &[narrow(stage.shape.groups.into())]);
        put(
            at + STAGE_PROBES,
            &narrow::<u16>(stage.shape.probes.get().into()).to_le_bytes(),
        );
        put(at + STAGE_BITS, &stage.shape.bits.get().to_le_bytes());
        put(at + STAGE_ITEMS, &stage.items.get().to_le_bytes());
    }
}

fn put_prefixes(header: &Header, put: &mut impl FnMut(usize, &[u8])) {
    let mut at = stage_at(header.stages.len());
    if !header.prefixes.is_empty() {
        put(at, &[narrow(header.prefixes.len() as u64)]);
        at += 1;
    }
    for prefix in &header.prefixes {
        let name = prefix.name().as_bytes();
        put(at + PREFIX_VERSION, &prefix.version().to_le_bytes());
        put(at + PREFIX_NAME_LENGTH, &[narrow(name.len() as u64)]);
        put(at + PREFIX_NAME, name);
        at += PREFIX_NAME + name.len();
    }
}

/// Narrows a number that `check_header` has found to fit its field.
fn narrow<T: TryFrom<u64>>(number: u64) -> T {
    T::try_from(number).unwrap_or_else(|_| unreachable!("{number} passed the check of its field"))
}

fn put_payload<S: Stored>(
    sidecar: &Sidecar<S>,
    out: &mut dyn Write,
    check: Hasher,
) -> io::Result<Hasher> {
    let mut blocks = BlockWriter::new(out, check);
    if let Subject::Summary { covered, .. } = &sidecar.subject {
        covered
            .iter()
            .try_for_each(|id| blocks.put(id.as_bytes()))?;
    }
    for stage in &sidecar.stages {
        blocks.put_words(stage.words())?;
    }
    blocks.finish()
}
