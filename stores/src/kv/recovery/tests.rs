//! The records of commits, one by one.

use crate::kv::tests::Memory;

use super::*;

fn opened(memory: &Memory, recovery: Recovery) -> Commits {
    let opened = Commits::open(memory, recovery, &HashSet::new());
    opened.unwrap().commits
}

fn hash(number: u64) -> [KeyHash; 1] {
    [KeyHash::new(number)]
}

/// The keys that records set, and those that they remove.
fn keys(records: &[Record]) -> (Vec<&[u8]>, Vec<&[u8]>) {
    let (mut set, mut removed) = (Vec::new(), Vec::new());
    for record in records {
        match record {
            Record::Put { key, .. } => set.push(&key[..]),
            Record::Delete { key } => removed.push(&key[..]),
        }
    }
    (set, removed)
}

fn value<'r>(records: &'r [Record], of: &[u8]) -> &'r [u8] {
    let value = records.iter().find_map(|record| match record {
        Record::Put { key, value } if key == of => Some(value),
        _ => None,
    });
    value.unwrap()
}

#[test]
fn only_a_journal_has_entries() {
    let memory = Memory::default();
    for (recovery, expected) in [
        (Recovery::Scan, &[][..]),
        (Recovery::Position, &[POSITION]),
        (Recovery::Journal, &[POSITION, &entry_key(1), BASE]),
    ] {
        let records = opened(&memory, recovery).next(&hash(1));
        assert_eq!(keys(&records), (expected.to_vec(), Vec::new()));
    }
}

/// Until a filter is stored, which takes the entries that it has out of the journal.
#[test]
fn commits_write_the_base_of_their_journal_once() {
    let mut commits = opened(&Memory::default(), Recovery::Journal);
    let mut position = Vec::new();
    for number in 1..=3 {
        let records = commits.next(&hash(number));
        assert_eq!(keys(&records).0.contains(&BASE), number == 1, "{number}");
        position = value(&records, POSITION).to_vec();
        commits.succeeded();
    }
    let stored = State::decode(&position).unwrap();
    commits.filter_stored(stored.id());
    let records = commits.next(&hash(4));
    let entries = [entry_key(1), entry_key(2), entry_key(3)];
    assert_eq!(keys(&records).1, entries.each_ref().map(|key| &key[..]));
    let base = Base {
        state: stored,
        oldest: 4,
    };
    assert_eq!(Base::decode(value(&records, BASE)), Some(base));
    commits.succeeded();
    assert!(!keys(&commits.next(&hash(5))).0.contains(&BASE));
}

/// The journal that begins after it removes those of the earlier one, a few in each commit.
#[test]
fn no_entry_stays_after_a_commit_in_doubt() {
    let memory = Memory::default();
    let mut commits = opened(&memory, Recovery::Journal);
    let commit = |commits: &mut Commits, number| {
        let records = commits.next(&hash(number));
        memory.commit(Vec::new(), &records).unwrap();
    };
    for number in 0..300 {
        commit(&mut commits, number);
        commits.succeeded();
    }
    commit(&mut commits, 300);
    for number in 301..310 {
        commit(&mut commits, number);
        commits.succeeded();
        commits.resume(&memory);
    }
    assert_eq!(memory.entries(), 8);
}
