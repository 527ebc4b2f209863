//! What the environment says of filters, for programs that were not written for them: whether there
//! are any, their settings, and where it is said that a database has none.

use std::collections::HashSet;
use std::env::{self, VarError};
use std::fmt::Display;
use std::fs;
use std::str::FromStr;
use std::time::Duration;

use lsm_sieve::{FilterSize, Items, SieveOptions};

use crate::call::invalid;
use crate::settings::without;

/// `1`: with filters.
const SWITCH: &str = "LSM_SIEVE";
/// `NAME=VALUE;NAME=VALUE`, or the path of a file, from the root on, with one a line.
const OPTIONS: &str = "LSM_SIEVE_OPTIONS";
/// `stderr`: what goes to a database's log goes there too.
const LOG: &str = "LSM_SIEVE_LOG";

/// The settings, if databases are to have filters.
///
/// # Errors
/// A variable has a value that is not understood.
pub(crate) fn settings() -> Result<Option<SieveOptions>, String> {
    if !is(SWITCH, "1", &["", "0"])? {
        return Ok(None);
    }
    says_aloud()?;
    let Some(text) = variable(OPTIONS)? else {
        return Ok(Some(SieveOptions::default()));
    };
    let given = match text.starts_with('/') {
        true => fs::read_to_string(&text).map_err(|error| wrong(OPTIONS, &text, error))?,
        false => text,
    };
    parsed(&given).map(Some)
}

/// Whether to say on the standard error stream that a database has no filters.
pub(crate) fn says_aloud() -> Result<bool, String> {
    is(LOG, "stderr", &[""])
}

fn variable(name: &str) -> Result<Option<String>, String> {
    match env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(value)) => Err(wrong(name, &value.to_string_lossy(), "no UTF-8")),
    }
}

/// Whether a variable has this value; it may also have one of the others, or none.
fn is(name: &str, value: &str, others: &[&str]) -> Result<bool, String> {
    match variable(name)? {
        None => Ok(false),
        Some(found) if found == value => Ok(true),
        Some(found) if others.contains(&found.as_str()) => Ok(false),
        Some(found) => {
            let remedy = format_args!("set it to {value}, or leave it unset");
            Err(wrong(name, &found, remedy))
        }
    }
}

fn wrong(place: &str, text: &str, reason: impl Display) -> String {
    invalid(format_args!("{place}: {text:?}: {reason}"))
}

fn parsed(text: &str) -> Result<SieveOptions, String> {
    let mut named = HashSet::new();
    let given = text.split([';', '\n']).map(str::trim);
    let mut given = given.filter(|given| !given.is_empty());
    given.try_fold(SieveOptions::default(), |settings, given| {
        let with_place = |reason| wrong(OPTIONS, given, reason);
        let Some((name, value)) = given.split_once('=') else {
            return Err(with_place("write NAME=VALUE".to_owned()));
        };
        let (name, value) = (name.trim(), value.trim());
        if !named.insert(name) {
            return Err(with_place("it is set twice; leave one out".to_owned()));
        }
        set(settings, name, value).map_err(with_place)
    })
}

/// The names are those of `lsm_sieve_options_set_...`.
fn set(settings: SieveOptions, name: &str, value: &str) -> Result<SieveOptions, String> {
    Ok(match name {
        "false_positive_rate" => {
            let size = FilterSize::rate(number(value)?);
            settings.filter_size(size.map_err(|error| error.to_string())?)
        }
        "bits_per_key" => {
            let size = FilterSize::bits_per_key(number(value)?);
            settings.filter_size(size.map_err(|error| error.to_string())?)
        }
        "segment_filters" if on(value)? => settings,
        "segment_filters" => settings.segment_filters(None),
        "speed_over_memory" => settings.speed_over_memory(on(value)?),
        "expected_keys" => settings.expected_keys(Items::new(number(value)?)),
        "memory_budget" => settings.memory_budget(bytes(value)?),
        "exclude_column_families" => value
            .split(',')
            .map(str::trim)
            .try_fold(settings, without)?,
        "injective_comparators" => value
            .split(',')
            .map(str::trim)
            .fold(settings, SieveOptions::comparator_is_injective),
        "audit" => settings.audit(number(value)?),
        "scrub_seconds" => {
            let seconds = number(value)?;
            settings.scrub_every((seconds > 0).then(|| Duration::from_secs(seconds)))
        }
        "adaptive_hits" => settings.adaptive_hits(on(value)?),
        _ => {
            return Err(
                "there is no such setting; there are false_positive_rate, bits_per_key, \
                        segment_filters, speed_over_memory, expected_keys, memory_budget, \
                        exclude_column_families, injective_comparators, audit, scrub_seconds and \
                        adaptive_hits"
                    .to_owned(),
            );
        }
    })
}

fn number<N: FromStr<Err: Display>>(value: &str) -> Result<N, String> {
    value
        .parse()
        .map_err(|error| format!("give a number: {error}"))
}

fn on(value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("give on or off".to_owned()),
    }
}

fn bytes(value: &str) -> Result<u64, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let unit = units.iter().find_map(|(unit, shift)| {
        let value = value.strip_suffix(unit)?;
        Some((value.trim_end(), *shift))
    });
    let (digits, shift) = unit.unwrap_or((value, 0));
    let bytes = digits.parse().ok();
    let bytes = bytes.and_then(|number: u64| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| "give a number of bytes, or of KiB, MiB or GiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_the_one_of_its_name() {
        let of = SieveOptions::default;
        let size = |rate| FilterSize::rate(rate).unwrap();
        let bits = FilterSize::bits_per_key(9.5).unwrap();
        for (text, expected) in [
            ("", of()),
            ("false_positive_rate=0.001", of().filter_size(size(0.001))),
            ("bits_per_key=9.5", of().filter_size(bits)),
            ("segment_filters=off", of().segment_filters(None)),
            ("segment_filters=on", of()),
            ("speed_over_memory=on", of().speed_over_memory(true)),
            ("expected_keys=1000", of().expected_keys(Items::new(1_000))),
            ("memory_budget=4096", of().memory_budget(4_096)),
            ("memory_budget=3KiB", of().memory_budget(3 << 10)),
            ("memory_budget=64MiB", of().memory_budget(64 << 20)),
            ("memory_budget=2 GiB", of().memory_budget(2 << 30)),
            ("exclude_column_families=a, b", of().exclude_cfs(["a", "b"])),
            (
                "injective_comparators=a, b",
                of().comparator_is_injective("a")
                    .comparator_is_injective("b"),
            ),
            ("audit=7", of().audit(7)),
            ("scrub_seconds=0", of().scrub_every(None)),
            (
                "scrub_seconds=9",
                of().scrub_every(Some(Duration::from_secs(9))),
            ),
            ("adaptive_hits=off", of().adaptive_hits(false)),
            (
                " audit = 1 ;\n\nadaptive_hits=off;",
                of().audit(1).adaptive_hits(false),
            ),
        ] {
            let set = parsed(text).unwrap();
            assert_eq!(format!("{set:?}"), format!("{expected:?}"), "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (text, named, reason) in [
            ("audit", "\"audit\"", "NAME=VALUE"),
            ("audit=1;audits=2", "\"audits=2\"", "no such setting"),
            ("audit=1;audit=1", "\"audit=1\"", "twice"),
            ("audit=-1", "\"audit=-1\"", "give a number"),
            ("false_positive_rate=1.5", "=1.5\"", "1.5"),
            ("bits_per_key=nan", "=nan\"", ""),
            ("memory_budget=64MB", "=64MB\"", "MiB"),
            ("memory_budget=99999999999GiB", "GiB\"", "give a number"),
            ("segment_filters=none", "=none\"", "on or off"),
            ("exclude_column_families=default", "=default\"", "default"),
        ] {
            let error = parsed(text).unwrap_err();
            let start = "Invalid argument: LSM_SIEVE_OPTIONS: ";
            assert!(error.starts_with(start), "{error}");
            assert!(error.contains(named) && error.contains(reason), "{error}");
        }
    }
}
