//! Prefixes: functions from keys to their leading bytes, and the filters' answer to "is there a key
//! with this prefix?".
//!
//! A prefix is one more key. Each filter that takes a key also takes the key's prefix by each
//! function of its column family, so prefixes are grown, stored, rebuilt and verified as keys are. A
//! filter is stored with the names of the functions whose prefixes it has
//! (`PrefixId`).
//!
//! *Invariant 10.* A filter answers for a prefix only if it was built with the prefixes of that
//! function, by name and version. `is_among` decides it, for segment filters
//! (`SealedFilter::has_prefixes_of`) and for what a summary filter was stored with
//! (`Prefixes::among`). Which of them the summary filter of a view has, its [`PrefixSet`] says;
//! views are checked by it (`View::check_prefix`), and only `Lookups::publish_known` decides it for
//! the next one. How scans use prefixes, and for how long the filters answer an iterator, is in
//! `cf_filter::prefix_lookup` and behind the engine's handle.

use std::fmt;
use std::sync::Arc;

use crate::fault::fault;
use crate::format::PrefixId;
use crate::hash::{KeyHash, KeyHasher};

/// A function from keys to prefixes, with a name and a version: which questions about many keys at
/// once the filters can answer.
///
/// ```
/// # use lsm_sieve_front::prefix::Prefix;
///
/// assert_eq!(Prefix::fixed(4).of(b"2026-11"), Some(&b"2026"[..]));
/// assert_eq!(Prefix::until(b'/').of(b"users/ada"), Some(&b"users/"[..]));
/// assert_eq!(Prefix::until(b'/').of(b"users"), None);
/// ```
#[derive(Clone)]
pub struct Prefix {
    id: PrefixId,
    function: Function,
}

#[derive(Clone)]
enum Function {
    Fixed(usize),
    Capped(usize),
    Until(u8),
    Custom(Arc<dyn Extract>),
}

/// A function that is not built in.
pub trait Extract: Send + Sync {
    /// The length of a key's prefix, at most that of the key; `None` if the key has none.
    fn length(&self, key: &[u8]) -> Option<usize>;

    /// Whether each key that starts with the prefix of another key has the same prefix: whether
    /// this prefix is that of all keys that start with it.
    fn is_of_all(&self, prefix: &[u8]) -> bool;
}

/// A user's function, which promises that.
struct Promised<F>(F);

impl<F: Fn(&[u8]) -> Option<usize> + Send + Sync> Extract for Promised<F> {
    fn length(&self, key: &[u8]) -> Option<usize> {
        self.0(key)
    }

    fn is_of_all(&self, _: &[u8]) -> bool {
        true
    }
}

/// A function from keys to prefixes cannot have this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no name for a prefix: use 1 to 128 bytes that do not begin with {BUILT_IN:?} or \
     {OF_ENGINE:?}"
)]
pub struct PrefixNameError(String);

/// How the names of the functions of this crate begin, and those of RocksDB's.
const BUILT_IN: &str = "lsm-sieve.";
const OF_ENGINE: &str = "rocksdb.";

impl Prefix {
    /// The first `length` bytes of a key. Shorter keys have no prefix.
    pub fn fixed(length: usize) -> Self {
        Self::built_in(&format!("fixed.{length}"), Function::Fixed(length))
    }

    /// The first `length` bytes of a key, or all if it is shorter.
    pub fn capped(length: usize) -> Self {
        Self::built_in(&format!("capped.{length}"), Function::Capped(length))
    }

    /// The bytes of a key up to its first `delimiter`, which is included. Keys without one have no
    /// prefix.
    pub fn until(delimiter: u8) -> Self {
        Self::built_in(
            &format!("until.{delimiter:02x}"),
            Function::Until(delimiter),
        )
    }

    /// A function of your own. It returns the length of a key's prefix, or `None` if the key has
    /// none; more than the key's length counts as none.
    ///
    /// It must return the same for the same key in every process that opens the database. If it
    /// changes, give it another name or version: filters that were built with the old one are then
    /// rebuilt in the background. And *each key that starts with the prefix of another key must
    /// have the same prefix*. A function that breaks one of these rules makes keys absent.
    ///
    /// # Errors
    /// If the name is empty, longer than 128 bytes, or begins with `lsm-sieve.` or `rocksdb.`.
    pub fn custom(
        name: &str,
        version: u32,
        length: impl Fn(&[u8]) -> Option<usize> + Send + Sync + 'static,
    ) -> Result<Self, PrefixNameError> {
        let is_taken = name.starts_with(BUILT_IN) || name.starts_with(OF_ENGINE);
        let id = PrefixId::new(name, version).filter(|_| !is_taken);
        let id = id.ok_or_else(|| PrefixNameError(name.to_owned()))?;
        let function = Function::Custom(Arc::new(Promised(length)));
        Ok(Self { id, function })
    }

    /// An engine's function of this name; `None` if that is no name.
    pub fn of_engine(name: &str, function: Arc<dyn Extract>) -> Option<Self> {
        let number = |start: &str| name.strip_prefix(start)?.parse().ok();
        if let Some(length) = number("rocksdb.FixedPrefix.") {
            return Some(Self::fixed(length));
        }
        if let Some(length) = number("rocksdb.CappedPrefix.") {
            return Some(Self::capped(length));
        }
        let name = match name.starts_with(OF_ENGINE) {
            true => name.to_owned(),
            false => format!("{OF_ENGINE}{name}"),
        };
        let id = PrefixId::new(&name, 0)?;
        let function = Function::Custom(function);
        Some(Self { id, function })
    }

    fn built_in(name: &str, function: Function) -> Self {
        let id = PrefixId::new(&format!("{BUILT_IN}{name}"), 1);
        let id = id.expect("the name is short");
        Self { id, function }
    }

    /// Its name and version, which are stored with the filters.
    pub fn id(&self) -> &PrefixId {
        &self.id
    }

    /// The prefix of a key, if it has one.
    #[inline]
    pub fn of<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        match &self.function {
            Function::Fixed(length) => key.get(..*length),
            Function::Capped(length) => Some(&key[..key.len().min(*length)]),
            Function::Until(delimiter) => {
                let at = key.iter().position(|byte| byte == delimiter)?;
                Some(&key[..=at])
            }
            Function::Custom(function) => key.get(..function.length(key)?),
        }
    }

    /// The prefix that all keys have which start with `start`; `None` if they may have several, or
    /// none (H82).
    #[inline]
    pub fn of_all<'k>(&self, start: &'k [u8]) -> Option<&'k [u8]> {
        match &self.function {
            Function::Fixed(_) | Function::Until(_) => self.of(start),
            Function::Capped(length) => {
                fault!(ShortCappedPrefixAsked, return self.of(start));
                start.get(..*length)
            }
            Function::Custom(function) => {
                let prefix = self.of(start)?;
                function.is_of_all(prefix).then_some(prefix)
            }
        }
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prefix({})", self.id)
    }
}

/// Whether a filter with the prefixes of these functions has those of another: invariant 10.
pub(crate) fn is_among(ids: &[PrefixId], id: &PrefixId) -> bool {
    fault!(PrefixIdsNotCompared, return true);
    ids.contains(id)
}

/// Some of the prefixes of a column family, by their place in its [`Prefixes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefixSet(u8);

const _: () = assert!(PrefixId::MOST <= u8::BITS as usize);

impl PrefixSet {
    #[inline]
    pub(crate) fn has(self, at: usize) -> bool {
        self.0 & (1 << at) != 0
    }

    pub(crate) fn has_all(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// More functions than a filter has the prefixes of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} functions give prefixes, with the engine's own; leave some out, {most} are the most that a \
     filter takes",
    most = PrefixId::MOST
)]
pub struct TooManyPrefixes(usize);

/// The functions that give the prefixes of a column family.
#[derive(Debug, Default)]
pub struct Prefixes {
    functions: Vec<Prefix>,
    ids: Arc<[PrefixId]>,
    /// The place of the function that the engine uses itself.
    of_engine: Option<usize>,
}

impl Prefixes {
    /// The engine's own function, if it has one, and these.
    pub fn beside_engine(
        engine: Option<Prefix>,
        given: impl IntoIterator<Item = Prefix>,
    ) -> Result<Self, TooManyPrefixes> {
        Ok(Self {
            of_engine: engine.as_ref().map(|_| 0),
            ..Self::new(engine.into_iter().chain(given))?
        })
    }

    /// The engine's own function, and its place.
    pub fn of_engine(&self) -> Option<(usize, &Prefix)> {
        let at = self.of_engine?;
        Some((at, self.functions.get(at)?))
    }

    /// These functions, each once.
    pub fn new(given: impl IntoIterator<Item = Prefix>) -> Result<Self, TooManyPrefixes> {
        let mut functions: Vec<Prefix> = Vec::new();
        for prefix in given {
            if functions.iter().all(|known| known.id != prefix.id) {
                functions.push(prefix);
            }
        }
        fault!(PrefixesCutOff, functions.truncate(PrefixId::MOST));
        if functions.len() > PrefixId::MOST {
            return Err(TooManyPrefixes(functions.len()));
        }
        let ids = functions.iter().map(|prefix| prefix.id.clone()).collect();
        Ok(Self {
            functions,
            ids,
            of_engine: None,
        })
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.functions.len()
    }

    /// What a filter with the prefixes of all of them is stored with.
    pub fn ids(&self) -> &Arc<[PrefixId]> {
        &self.ids
    }

    /// Their ids.
    pub(crate) fn ids_of(&self, set: PrefixSet) -> Vec<PrefixId> {
        let of_set = (0..self.len()).filter(|&at| set.has(at));
        of_set.map(|at| self.ids[at].clone()).collect()
    }

    /// All of them.
    pub(crate) fn all(&self) -> PrefixSet {
        PrefixSet(((1_u16 << self.functions.len()) - 1) as u8)
    }

    /// The functions whose ids are among these.
    pub(crate) fn among(&self, ids: &[PrefixId]) -> PrefixSet {
        let known = (0..self.len()).filter(|&at| is_among(ids, &self.ids[at]));
        PrefixSet(known.fold(0, |set, at| set | 1 << at))
    }

    /// Calls `each` with the prefixes that a filter takes beside a key. A prefix that is the whole
    /// key is left out: it has the hash of the key.
    #[inline]
    pub fn each<'k>(&self, key: &'k [u8], mut each: impl FnMut(usize, &'k [u8])) {
        for (at, prefix) in self.functions.iter().enumerate() {
            fault!(PrefixNotAdded, continue);
            if let Some(prefix) = prefix.of(key)
                && prefix.len() < key.len()
            {
                each(at, prefix);
            }
        }
    }

    /// The hashes of [`Prefixes::each`], without those of prefixes that the key before had too: in
    /// order, keys with the same prefix are neighbours. `last` has a place for each function.
    pub(crate) fn each_new_hash(
        &self,
        key: &[u8],
        hasher: KeyHasher,
        last: &mut [Option<KeyHash>],
        mut each: impl FnMut(KeyHash),
    ) {
        self.each(key, |at, prefix| {
            let hash = hasher.hash(prefix);
            if last[at].replace(hash) != Some(hash) {
                each(hash);
            }
        });
    }

    /// The prefixes, with their places, that all keys have which start with `start`.
    #[inline]
    pub(crate) fn of_all<'k>(&self, start: &'k [u8]) -> impl Iterator<Item = (usize, &'k [u8])> {
        let functions = self.functions.iter().enumerate();
        functions.filter_map(|(at, prefix)| Some((at, prefix.of_all(start)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_is_that_of_the_function() {
        let half = |key: &[u8]| (key.len() != 3).then_some(key.len() / 2);
        let half = Prefix::custom("half", 1, half).unwrap();
        let cases: [(_, &[u8], Option<&[u8]>); 8] = [
            (Prefix::fixed(2), b"abc", Some(b"ab")),
            (Prefix::fixed(2), b"a", None),
            (Prefix::capped(2), b"abc", Some(b"ab")),
            (Prefix::capped(2), b"a", Some(b"a")),
            (Prefix::until(b'/'), b"a/b/c", Some(b"a/")),
            (Prefix::until(b'/'), b"abc", None),
            (half.clone(), b"abcdef", Some(b"abc")),
            (half, b"abc", None),
        ];
        for (prefix, key, expected) in cases {
            assert_eq!(prefix.of(key), expected, "{prefix:?} of {key:?}");
        }
    }

    #[test]
    fn of_all_gives_the_prefix_of_every_key_with_that_start() {
        let custom = |key: &[u8]| key.first().map(|&length| usize::from(length) + 1);
        let prefixes = [
            Prefix::fixed(0),
            Prefix::fixed(2),
            Prefix::capped(3),
            Prefix::until(1),
            Prefix::custom("length first", 1, custom).unwrap(),
        ];
        // All keys of up to four bytes, each below three.
        let mut keys = vec![Vec::new()];
        for length in 1..=4 {
            let shorter: Vec<Vec<u8>> = keys
                .iter()
                .filter(|key| key.len() + 1 == length)
                .cloned()
                .collect();
            for key in shorter {
                keys.extend((0..3).map(|byte| [&key[..], &[byte]].concat()));
            }
        }
        for prefix in prefixes {
            let mut answered = 0;
            for start in &keys {
                let Some(found) = prefix.of_all(start) else {
                    continue;
                };
                answered += 1;
                for key in keys.iter().filter(|key| key.starts_with(start)) {
                    assert_eq!(prefix.of(key), Some(found), "{prefix:?} {start:?} {key:?}");
                }
            }
            assert!(answered > 20, "{prefix:?}");
        }
    }

    #[test]
    fn reserved_prefix_names_are_refused() {
        let named = |name: &str| Prefix::custom(name, 1, |_| None).map(|prefix| prefix.id);
        for name in ["", "lsm-sieve.fixed.8", "rocksdb.mine", &"x".repeat(129)] {
            let error = named(name).unwrap_err();
            assert!(error.to_string().contains("1 to 128 bytes"), "{error}");
        }
        assert_eq!(named("mine"), Ok(PrefixId::new("mine", 1).unwrap()));
    }

    #[test]
    fn engine_function_that_is_built_in_has_the_same_id() {
        struct None_;
        impl Extract for None_ {
            fn length(&self, _: &[u8]) -> Option<usize> {
                None
            }
            fn is_of_all(&self, _: &[u8]) -> bool {
                false
            }
        }
        let named = |name: &str| Prefix::of_engine(name, Arc::new(None_)).unwrap().id;
        assert_eq!(named("rocksdb.FixedPrefix.8"), Prefix::fixed(8).id);
        assert_eq!(named("rocksdb.CappedPrefix.3"), Prefix::capped(3).id);
        assert_eq!(named("mine").name(), "rocksdb.mine");
        assert_eq!(named("rocksdb.Noop").name(), "rocksdb.Noop");
    }

    #[test]
    fn more_than_eight_distinct_prefix_functions_are_refused() {
        let new = |functions: usize| {
            let twice = (0..2 * functions).map(|n| Prefix::fixed(n / 2));
            Prefixes::new(twice)
        };
        assert_eq!(new(PrefixId::MOST + 1).unwrap_err(), TooManyPrefixes(9));
        let engine = Some(Prefix::until(b'/'));
        let given = |functions| (0..functions).map(Prefix::fixed);
        let beside = |functions| Prefixes::beside_engine(engine.clone(), given(functions));
        assert_eq!(beside(7).unwrap().len(), PrefixId::MOST);
        assert_eq!(beside(8).unwrap_err(), TooManyPrefixes(9));
        let prefixes = new(PrefixId::MOST).unwrap();
        assert_eq!(prefixes.len(), PrefixId::MOST);
        assert!((0..PrefixId::MOST).all(|at| prefixes.all().has(at)));
        let some = prefixes.among(&[Prefix::fixed(9).id, Prefix::fixed(3).id]);
        assert!((0..PrefixId::MOST).all(|at| some.has(at) == (at == 3)));
        assert!(prefixes.all().has_all(some) && !some.has_all(prefixes.all()));
        let other = prefixes.among(&[Prefix::fixed(4).id]);
        assert_eq!(prefixes.all().and(some), some);
        assert_eq!(some.and(other), PrefixSet::default());
    }
}
