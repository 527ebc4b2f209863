//! The reports of the benchmarks: plain data, printed as JSON for programs and as a table for people.
//!
//! The JSON names are part of the command line's interface; they change only with a major version.

use lsm_sieve_cli::workload::miss::{Figures, Mix, Pair};
use lsm_sieve_cli::workload::report::{Tabular, nanoseconds, number, percent, times};
use lsm_sieve_cli::workload::stopwatch::Spent;
use serde::Serialize;

mod busy;
mod prefix;

pub use busy::{BusyReport, BusyRow};
pub use prefix::{PrefixReport, PrefixTimes};

/// The time of one job without filters and with them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobReport {
    /// The job.
    pub job: String,
    /// Seconds of the calls with filters; the median of the rounds, as all figures that do not say
    /// otherwise.
    pub seconds: f64,
    /// Seconds of the calls of RocksDB alone.
    pub seconds_native: f64,
    /// CPU seconds with filters: of the calls, and of all other threads until nothing is left to do
    /// after them.
    pub cpu_seconds: f64,
    /// CPU seconds of RocksDB alone.
    pub cpu_seconds_native: f64,
    /// Seconds of RocksDB alone over seconds with filters, both of one round.
    pub ratio: f64,
    /// The least of the rounds.
    pub ratio_min: f64,
    /// The most of the rounds.
    pub ratio_max: f64,
    /// Bits per key of all filters when the job is done.
    pub bits_per_key: f64,
}

impl JobReport {
    /// Sums up rounds: the time of RocksDB alone, and with filters.
    ///
    /// # Panics
    /// If there is no round.
    pub fn new(job: String, rounds: &[(Spent, Spent)], bits_per_key: f64) -> Self {
        let all = |of: fn(&(Spent, Spent)) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(of).collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let median = |of| middle(&all(of));
        let ratio =
            |(native, sieve): &(Spent, Spent)| native.wall.as_secs_f64() / sieve.wall.as_secs_f64();
        let ratios = all(ratio);
        Self {
            job,
            seconds: median(|(_, sieve)| sieve.wall.as_secs_f64()),
            seconds_native: median(|(native, _)| native.wall.as_secs_f64()),
            cpu_seconds: median(|(_, sieve)| sieve.cpu.as_secs_f64()),
            cpu_seconds_native: median(|(native, _)| native.cpu.as_secs_f64()),
            ratio: middle(&ratios),
            ratio_min: ratios[0],
            ratio_max: ratios[ratios.len() - 1],
            bits_per_key,
        }
    }
}

/// The median of sorted values.
fn middle(sorted: &[f64]) -> f64 {
    f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}

/// The times of several jobs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct JobsReport(pub Vec<JobReport>);

impl Tabular for JobsReport {
    fn head(&self) -> Vec<String> {
        let names = "job|seconds|RocksDB|CPU s|CPU s, RocksDB|ratio|least|most|bits per key";
        names.split('|').map(str::to_owned).collect()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |job: &JobReport| {
            let times = [
                job.seconds,
                job.seconds_native,
                job.cpu_seconds,
                job.cpu_seconds_native,
                job.ratio,
                job.ratio_min,
                job.ratio_max,
            ];
            let times = times.iter().map(|value| format!("{value:.2}"));
            let first = std::iter::once(job.job.clone());
            first
                .chain(times)
                .chain([format!("{:.1}", job.bits_per_key)])
                .collect()
        };
        self.0.iter().map(row).collect()
    }

    fn legend(&self) -> Vec<(&str, &str)> {
        vec![
            ("job", "the job, of which each round does as many steps"),
            (
                "seconds",
                "of the calls with filters; as all figures a median over the rounds",
            ),
            ("RocksDB", "seconds of the calls of RocksDB alone"),
            (
                "CPU s",
                "CPU seconds with filters: of the calls, and of all other threads until nothing is left to do",
            ),
            ("CPU s, RocksDB", "the same of RocksDB alone"),
            (
                "ratio",
                "seconds of RocksDB alone over seconds with filters, of one round",
            ),
            ("least", "the least ratio of a round"),
            ("most", "the greatest ratio of a round"),
            ("bits per key", "of all filters when the job is done"),
        ]
    }

    fn notes(&self) -> Vec<String> {
        vec!["RocksDB: alone; ratio: its seconds over those with filters".to_owned()]
    }
}

/// The size of the filters in a benchmark, and how often segment filters are wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weights {
    /// Bits per key of the summary filter.
    pub front_bits_per_key: f64,
    /// Bits per key of the segment filters.
    pub segment_bits_per_key: f64,
    /// Bits per key of RocksDB's own filters in the other store.
    pub native_bits_per_key: f64,
    /// False positives / (false positives + true negatives) of one segment filter.
    pub segment_observed_rate: f64,
}

/// The result of lookups of which a share is for absent keys.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MixReport {
    /// The share, from 0 to 1.
    pub absent: f64,
    /// Nanoseconds per lookup in RocksDB alone.
    pub native_ns: f64,
    /// Nanoseconds per lookup with filters.
    pub sieve_ns: f64,
    /// Native over sieve.
    pub ratio: f64,
    /// Nanoseconds per key of a batch in RocksDB alone.
    pub native_multi_ns: f64,
    /// Nanoseconds per key of a batch with filters.
    pub sieve_multi_ns: f64,
    /// Native over sieve.
    pub ratio_multi: f64,
    /// Blocks per lookup that RocksDB alone read from disk; null if everything is cached.
    pub native_blocks: Option<f64>,
    /// The same with filters.
    pub sieve_blocks: Option<f64>,
    /// Blocks per key of a batch that RocksDB alone read from disk.
    pub native_multi_blocks: Option<f64>,
    /// The same with filters.
    pub sieve_multi_blocks: Option<f64>,
}

impl MixReport {
    fn new(case: &Case, mix: &Mix) -> Self {
        let (one, many) = (mix.one_ns, mix.many_ns);
        let (blocks, multi_blocks) = (case.counted(mix.one_blocks), case.counted(mix.many_blocks));
        Self {
            absent: mix.absent,
            native_ns: one.native,
            sieve_ns: one.sieve,
            ratio: one.speedup(),
            native_multi_ns: many.native,
            sieve_multi_ns: many.sieve,
            ratio_multi: many.speedup(),
            native_blocks: blocks.map(|pair| pair.native),
            sieve_blocks: blocks.map(|pair| pair.sieve),
            native_multi_blocks: multi_blocks.map(|pair| pair.native),
            sieve_multi_blocks: multi_blocks.map(|pair| pair.sieve),
        }
    }
}

/// The result of a benchmark of misses. Ratios above 1 mean a gain in `ratio_miss`,
/// `ratio_multi_miss` and those of the mixes, and a cost in `ratio_hit`, `ratio_multi_hit` and
/// `ratio_fill`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MissReport {
    /// Keys that were loaded.
    pub keys: u64,
    /// A number of sorted runs, or `leveled`.
    pub runs: String,
    /// RocksDB's own filter.
    pub native: String,
    /// MiB of each block cache; other blocks are read from disk. Null if everything is cached.
    pub cache_mib: Option<u64>,
    /// Number of rounds that the medians are over.
    pub rounds: usize,
    /// Nanoseconds per miss in RocksDB alone.
    pub native_miss_ns: f64,
    /// Nanoseconds per miss with filters.
    pub sieve_miss_ns: f64,
    /// Native over sieve.
    pub ratio_miss: f64,
    /// Nanoseconds per hit in RocksDB alone.
    pub native_hit_ns: f64,
    /// Nanoseconds per hit with filters.
    pub sieve_hit_ns: f64,
    /// Sieve over native.
    pub ratio_hit: f64,
    /// Nanoseconds per absent key of a batch in RocksDB alone.
    pub native_multi_miss_ns: f64,
    /// Nanoseconds per absent key of a batch with filters.
    pub sieve_multi_miss_ns: f64,
    /// Native over sieve.
    pub ratio_multi_miss: f64,
    /// Nanoseconds per present key of a batch in RocksDB alone.
    pub native_multi_hit_ns: f64,
    /// Nanoseconds per present key of a batch with filters.
    pub sieve_multi_hit_ns: f64,
    /// Sieve over native.
    pub ratio_multi_hit: f64,
    /// Blocks per miss that RocksDB alone read from disk; null if everything is cached.
    pub native_miss_blocks: Option<f64>,
    /// The same with filters.
    pub sieve_miss_blocks: Option<f64>,
    /// Blocks per absent key of a batch that RocksDB alone read from disk.
    pub native_multi_miss_blocks: Option<f64>,
    /// The same with filters.
    pub sieve_multi_miss_blocks: Option<f64>,
    /// Blocks per hit that RocksDB alone read from disk.
    pub native_hit_blocks: Option<f64>,
    /// The same with filters.
    pub sieve_hit_blocks: Option<f64>,
    /// Blocks per present key of a batch that RocksDB alone read from disk.
    pub native_multi_hit_blocks: Option<f64>,
    /// The same with filters.
    pub sieve_multi_hit_blocks: Option<f64>,
    /// Lookups of mixes of absent and present keys.
    pub mixes: Vec<MixReport>,
    /// Microseconds to load a key into RocksDB alone.
    pub native_fill_us: f64,
    /// Microseconds to load a key with filters.
    pub sieve_fill_us: f64,
    /// Sieve over native.
    pub ratio_fill: f64,
    /// Bits per key of the summary filter.
    pub front_bits_per_key: f64,
    /// Bits per key of the segment filters.
    pub segment_bits_per_key: f64,
    /// Bits per key of RocksDB's own filters in the other store.
    pub native_bits_per_key: f64,
    /// False positives / (false positives + true negatives) of all filters before the engine.
    pub observed_rate: f64,
    /// The same of one segment filter.
    pub segment_observed_rate: f64,
    /// Loaded keys that were answered absent. Must be 0.
    pub false_negatives: u64,
}

impl MissReport {
    /// Builds the report from its parts.
    pub fn new(case: &Case, fill_us: Pair, figures: &Figures, weights: Weights) -> Self {
        let (miss, hit) = (
            MixReport::new(case, &figures.miss),
            MixReport::new(case, &figures.hit),
        );
        let counts = figures.counts;
        Self {
            keys: case.keys,
            runs: case.runs.clone(),
            native: case.native.clone(),
            cache_mib: case.cache_mib,
            rounds: case.rounds,
            native_miss_ns: miss.native_ns,
            sieve_miss_ns: miss.sieve_ns,
            ratio_miss: miss.ratio,
            native_hit_ns: hit.native_ns,
            sieve_hit_ns: hit.sieve_ns,
            ratio_hit: figures.hit.one_ns.slowdown(),
            native_multi_miss_ns: miss.native_multi_ns,
            sieve_multi_miss_ns: miss.sieve_multi_ns,
            ratio_multi_miss: miss.ratio_multi,
            native_multi_hit_ns: hit.native_multi_ns,
            sieve_multi_hit_ns: hit.sieve_multi_ns,
            ratio_multi_hit: figures.hit.many_ns.slowdown(),
            native_miss_blocks: miss.native_blocks,
            sieve_miss_blocks: miss.sieve_blocks,
            native_multi_miss_blocks: miss.native_multi_blocks,
            sieve_multi_miss_blocks: miss.sieve_multi_blocks,
            native_hit_blocks: hit.native_blocks,
            sieve_hit_blocks: hit.sieve_blocks,
            native_multi_hit_blocks: hit.native_multi_blocks,
            sieve_multi_hit_blocks: hit.sieve_multi_blocks,
            mixes: (figures.mixes.iter())
                .map(|mix| MixReport::new(case, mix))
                .collect(),
            native_fill_us: fill_us.native,
            sieve_fill_us: fill_us.sieve,
            ratio_fill: fill_us.slowdown(),
            front_bits_per_key: weights.front_bits_per_key,
            segment_bits_per_key: weights.segment_bits_per_key,
            native_bits_per_key: weights.native_bits_per_key,
            observed_rate: counts.observed_rate(),
            segment_observed_rate: weights.segment_observed_rate,
            false_negatives: counts.false_negatives,
        }
    }
}

/// The parameters of the benchmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Keys to load.
    pub keys: u64,
    /// A number of sorted runs, or `leveled`.
    pub runs: String,
    /// RocksDB's own filter.
    pub native: String,
    /// MiB of each block cache; `None` if it holds everything.
    pub cache_mib: Option<u64>,
    /// Rounds of lookups.
    pub rounds: usize,
}

impl Case {
    /// The blocks that lookups read; `None` if everything is cached, since they are then not
    /// counted.
    fn counted(&self, blocks: Pair) -> Option<Pair> {
        self.cache_mib.map(|_| blocks)
    }
}

impl Tabular for MissReport {
    fn head(&self) -> Vec<String> {
        let title = format!("{} keys, {} runs", number(self.keys), self.runs);
        vec![
            title,
            format!("RocksDB, {}", self.native),
            "with lsm-sieve".into(),
            "ratio".into(),
        ]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let line = |label: &str, native: String, sieve: String, ratio: String| {
            vec![label.to_owned(), native, sieve, ratio]
        };
        let ns = |label: &str, native, sieve, ratio| {
            line(label, nanoseconds(native), nanoseconds(sieve), times(ratio))
        };
        let (front, segment) = (self.front_bits_per_key, self.segment_bits_per_key);
        let mut rows = vec![
            ns(
                "a miss",
                self.native_miss_ns,
                self.sieve_miss_ns,
                self.ratio_miss,
            ),
            ns(
                "a miss in a batch",
                self.native_multi_miss_ns,
                self.sieve_multi_miss_ns,
                self.ratio_multi_miss,
            ),
            ns(
                "a hit",
                self.native_hit_ns,
                self.sieve_hit_ns,
                self.ratio_hit,
            ),
            ns(
                "a hit in a batch",
                self.native_multi_hit_ns,
                self.sieve_multi_hit_ns,
                self.ratio_multi_hit,
            ),
        ];
        let blocks = |label: &str, native: Option<f64>, sieve: Option<f64>| {
            let both = native.zip(sieve);
            both.map(|(native, sieve)| {
                let [native, sieve] = [native, sieve].map(|blocks| format!("{blocks:.4}"));
                line(label, native, sieve, String::new())
            })
        };
        for (label, native, sieve) in [
            ("a miss", self.native_miss_blocks, self.sieve_miss_blocks),
            (
                "a miss in a batch",
                self.native_multi_miss_blocks,
                self.sieve_multi_miss_blocks,
            ),
            ("a hit", self.native_hit_blocks, self.sieve_hit_blocks),
            (
                "a hit in a batch",
                self.native_multi_hit_blocks,
                self.sieve_multi_hit_blocks,
            ),
        ] {
            rows.extend(blocks(&format!("blocks read for {label}"), native, sieve));
        }
        for mix in &self.mixes {
            let absent = percent(mix.absent);
            let one = format!("a lookup, {absent} absent");
            let many = format!("the same in a batch, {absent} absent");
            rows.push(ns(&one, mix.native_ns, mix.sieve_ns, mix.ratio));
            rows.push(ns(
                &many,
                mix.native_multi_ns,
                mix.sieve_multi_ns,
                mix.ratio_multi,
            ));
            let label = format!("blocks read for a lookup, {absent} absent");
            rows.extend(blocks(&label, mix.native_blocks, mix.sieve_blocks));
            let label = format!("blocks read in a batch, {absent} absent");
            let (native, sieve) = (mix.native_multi_blocks, mix.sieve_multi_blocks);
            rows.extend(blocks(&label, native, sieve));
        }
        rows.extend([
            line(
                "loading a key",
                format!("{:.3} us", self.native_fill_us),
                format!("{:.3} us", self.sieve_fill_us),
                times(self.ratio_fill),
            ),
            line(
                "bits per key",
                format!("{:.1}", self.native_bits_per_key),
                format!("{front:.1} + {segment:.1}"),
                String::new(),
            ),
            line(
                "observed rate, all filters + segment",
                String::new(),
                format!(
                    "{} + {}",
                    percent(self.observed_rate),
                    percent(self.segment_observed_rate)
                ),
                String::new(),
            ),
            line(
                "false negatives",
                String::new(),
                number(self.false_negatives),
                String::new(),
            ),
        ]);
        rows
    }

    fn legend(&self) -> Vec<(&str, &str)> {
        vec![
            (
                "RocksDB",
                "RocksDB alone, with this filter of its own and its bits per key",
            ),
            (
                "with lsm-sieve",
                "the same options and keys, with filters in front",
            ),
            ("ratio", "how many times as fast it is with filters"),
            ("a miss", "a lookup of a key that does not exist"),
            ("a hit", "a lookup of a key that exists"),
            ("in a batch", "per key of a `multi_get`"),
            ("blocks read", "per lookup, from disk past the block cache"),
            ("loading a key", "per key of the load, flushes included"),
            (
                "bits per key",
                "RocksDB's filters; summary filter + segment filters",
            ),
            (
                "observed rate",
                "misses that entered RocksDB + misses that passed one segment filter",
            ),
            (
                "false negatives",
                "keys that exist and were answered absent; must be 0",
            ),
        ]
    }
}

/// The result of splitting a number of bits between the summary filter and the segment filters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SplitReport {
    /// Bits per key to split.
    pub total_bits: f64,
    /// The split with the fastest misses.
    pub best: MissReport,
    /// Every split that was tried.
    pub splits: Vec<MissReport>,
}

impl SplitReport {
    /// Picks the best of the splits; `None` if there are none.
    pub fn new(total_bits: f64, splits: Vec<MissReport>) -> Option<Self> {
        let faster = |a: &&MissReport, b: &&MissReport| a.sieve_miss_ns.total_cmp(&b.sieve_miss_ns);
        let best = splits.iter().min_by(faster)?.clone();
        Some(Self {
            total_bits,
            best,
            splits,
        })
    }
}

impl Tabular for SplitReport {
    fn head(&self) -> Vec<String> {
        let heads = [
            "summary + segment bits",
            "miss",
            "ratio",
            "in a batch",
            "hit",
            "rate",
            "segment rate",
        ];
        heads.map(str::to_owned).to_vec()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |split: &MissReport| {
            let mark = if *split == self.best { " (best)" } else { "" };
            vec![
                format!(
                    "{:.1} + {:.1}{mark}",
                    split.front_bits_per_key, split.segment_bits_per_key
                ),
                nanoseconds(split.sieve_miss_ns),
                times(split.ratio_miss),
                times(split.ratio_multi_miss),
                times(split.ratio_hit),
                percent(split.observed_rate),
                percent(split.segment_observed_rate),
            ]
        };
        self.splits.iter().map(row).collect()
    }

    fn legend(&self) -> Vec<(&str, &str)> {
        vec![
            (
                "summary + segment bits",
                "bits per key of the summary filter and of the segment filters",
            ),
            ("miss", "nanoseconds of a miss with filters"),
            (
                "ratio",
                "how many times as fast a miss is as in RocksDB alone",
            ),
            ("in a batch", "the same of a miss in a `multi_get`"),
            ("hit", "the same of a hit"),
            ("rate", "misses that entered RocksDB"),
            ("segment rate", "misses that passed one segment filter"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use lsm_sieve_cli::workload::miss::{Figures, Mix, Pair};
    use lsm_sieve_cli::workload::replay::Counts;
    use lsm_sieve_cli::workload::report::table;

    use super::*;

    fn miss(ns: f64) -> MissReport {
        let case = Case {
            keys: 1,
            runs: "8".into(),
            native: "bloom".into(),
            cache_mib: None,
            rounds: 7,
        };
        let pair = |native, sieve| Pair { native, sieve };
        let mix = |absent, one_ns, many_ns| Mix {
            absent,
            one_ns,
            many_ns,
            one_blocks: pair(0.0, 0.0),
            many_blocks: pair(0.0, 0.0),
        };
        let figures = Figures {
            miss: mix(1.0, pair(1000.0, ns), pair(800.0, 20.0)),
            hit: mix(0.0, pair(100.0, 102.0), pair(80.0, 84.0)),
            mixes: vec![mix(0.5, pair(600.0, 100.0), pair(500.0, 50.0))],
            counts: Counts {
                misses: 200,
                false_positives: 2,
                ..Counts::default()
            },
        };
        MissReport::new(&case, pair(2.0, 2.2), &figures, Weights::default())
    }

    /// The names are an interface: scripts read them.
    #[test]
    fn json_names_are_fixed() {
        let json = serde_json::to_value(miss(50.0)).unwrap();
        for name in [
            "ratio_miss",
            "ratio_hit",
            "ratio_multi_miss",
            "ratio_multi_hit",
            "ratio_fill",
            "observed_rate",
        ] {
            assert!(json[name].is_number(), "{name}");
        }
    }

    #[test]
    fn ratios_point_where_their_documentation_says() {
        let report = miss(50.0);
        assert_eq!((report.ratio_miss, report.ratio_multi_miss), (20.0, 40.0));
        assert_eq!((report.ratio_hit, report.ratio_multi_hit), (1.02, 1.05));
        assert_eq!(report.ratio_fill, 1.1);
        let [mix] = report.mixes[..] else {
            panic!("{:?}", report.mixes);
        };
        assert_eq!((mix.ratio, mix.ratio_multi), (6.0, 10.0));
        assert_eq!(report.observed_rate, 0.01);
    }

    #[test]
    fn the_best_split_has_the_fastest_miss() {
        let report = SplitReport::new(12.0, vec![miss(70.0), miss(50.0), miss(60.0)]).unwrap();
        assert_eq!(report.best.sieve_miss_ns, 50.0);
        assert!(table(&report).to_string().contains("(best)"));
        assert_eq!(SplitReport::new(12.0, vec![]), None);
    }
}
