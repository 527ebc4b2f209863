//! Decodes the records of a trace from decompressed bytes.

use std::io::{self, BufRead, Read as _};
use std::ops::Range;

use super::Format;

/// A longer line is not a record and is not read to its end.
const LINE_BYTES_MAX: usize = 256;
/// Characters of a bad line that an error shows.
const SHOWN_CHARS_MAX: usize = 60;

/// An error in the bytes, to which the trace adds its path.
#[derive(Debug)]
pub(super) enum Flaw {
    Read(io::Error),
    Cut {
        width: usize,
        left: usize,
    },
    Line {
        line: u64,
        reason: &'static str,
        text: String,
    },
}

impl From<io::Error> for Flaw {
    fn from(source: io::Error) -> Self {
        Self::Read(source)
    }
}

/// The state of a decoder.
pub(super) enum Decode {
    U64Be,
    U32Be,
    Lines(Text),
    Lis { text: Text, pages: Range<u64> },
}

impl Decode {
    pub(super) fn new(format: Format) -> Self {
        match format {
            Format::U64Be => Self::U64Be,
            Format::U32Be => Self::U32Be,
            Format::Lines => Self::Lines(Text::default()),
            Format::Lis => Self::Lis {
                text: Text::default(),
                pages: 0..0,
            },
        }
    }

    /// The next id; `None` at the end.
    pub(super) fn next(&mut self, bytes: &mut dyn BufRead) -> Result<Option<u64>, Flaw> {
        match self {
            Self::U64Be => Ok(fixed(bytes)?.map(u64::from_be_bytes)),
            Self::U32Be => Ok(fixed(bytes)?.map(u32::from_be_bytes).map(u64::from)),
            Self::Lines(text) => text.next(bytes, number),
            Self::Lis { text, pages } => loop {
                if let Some(page) = pages.next() {
                    return Ok(Some(page));
                }
                match text.next(bytes, page_range)? {
                    Some(range) => *pages = range,
                    None => return Ok(None),
                }
            },
        }
    }
}

/// The next `N` bytes. `None` at the end of the bytes; an error if they end in the middle of a
/// record.
fn fixed<const N: usize>(bytes: &mut dyn BufRead) -> Result<Option<[u8; N]>, Flaw> {
    let mut record = [0; N];
    let mut filled = 0;
    while filled < N {
        match bytes.read(&mut record[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => {
                return Err(Flaw::Cut {
                    width: N,
                    left: filled,
                });
            }
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Some(record))
}

/// Lines, counted from 1, in a buffer that is reused.
#[derive(Default)]
pub(super) struct Text {
    line: u64,
    buffer: Vec<u8>,
}

impl Text {
    /// The next line, parsed; `None` at the end.
    fn next<T>(
        &mut self,
        bytes: &mut dyn BufRead,
        parse: fn(&str) -> Result<T, &'static str>,
    ) -> Result<Option<T>, Flaw> {
        self.buffer.clear();
        let limit = LINE_BYTES_MAX as u64 + 1;
        if bytes.take(limit).read_until(b'\n', &mut self.buffer)? == 0 {
            return Ok(None);
        }
        self.line += 1;
        self.parse(parse)
            .map(Some)
            .map_err(|reason| self.flaw(reason))
    }

    fn parse<T>(&self, parse: fn(&str) -> Result<T, &'static str>) -> Result<T, &'static str> {
        if self.buffer.len() > LINE_BYTES_MAX {
            return Err("is too long for a record");
        }
        let text = str::from_utf8(&self.buffer).map_err(|_| "is not text")?;
        parse(text.trim_end_matches(['\r', '\n']))
    }

    fn flaw(&self, reason: &'static str) -> Flaw {
        let text = String::from_utf8_lossy(&self.buffer);
        let text = text.trim_end().chars().take(SHOWN_CHARS_MAX).collect();
        Flaw::Line {
            line: self.line,
            reason,
            text,
        }
    }
}

fn number(text: &str) -> Result<u64, &'static str> {
    text.parse()
        .map_err(|_| "is not a number from 0 to 2^64 - 1")
}

fn page_range(line: &str) -> Result<Range<u64>, &'static str> {
    let mut fields = line.split_ascii_whitespace();
    let (Some(start), Some(count), Some(_ignored), Some(_number), None) = (
        fields.next(),
        fields.next(),
        fields.next(),
        fields.next(),
        fields.next(),
    ) else {
        return Err("does not have the four fields `start count ignored number`");
    };
    let (start, count) = (number(start)?, number(count)?);
    let end = start
        .checked_add(count)
        .ok_or("names pages past 2^64 - 1")?;
    Ok(start..end)
}
