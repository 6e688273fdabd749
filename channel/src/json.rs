//! JSON that people can read: a line for each field, and for each element of a list among them.

use serde::{Deserialize, Serialize};
use serde_json::ser::Formatter;
use std::io::{self, Write};

/// `value`, an object, as text.
pub(crate) fn to_lines<T: Serialize>(value: &T) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, Lines::default()))?;
    text.push(b'\n');
    Ok(text)
}

/// What a document says of its format, before anything else of it is read.
pub(crate) fn check_format<E: From<Unknown>>(
    bytes: &[u8],
    expected: &str,
    damaged: impl FnOnce(String) -> E,
) -> Result<(), E> {
    #[derive(Deserialize)]
    struct Format {
        format: String,
    }
    let Format { format } = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    if format == expected { Ok(()) } else { Err(Unknown { found: format.chars().take(64).collect() }.into()) }
}

/// A document in a format that this version does not know.
pub(crate) struct Unknown {
    /// What it says of itself.
    pub(crate) found: String,
}

/// Breaks lines in the outer object and in the lists that are its fields, and nowhere else.
#[derive(Default)]
struct Lines {
    depth: usize,
}

impl Lines {
    const OUTER: usize = 2;

    fn begin<W: Write + ?Sized>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        writer.write_all(bracket)
    }

    fn end<W: Write + ?Sized>(&mut self, writer: &mut W, bracket: &[u8], broken: bool) -> io::Result<()> {
        self.depth -= 1;
        if broken {
            self.line(writer)?;
        }
        writer.write_all(bracket)
    }

    fn line<W: Write + ?Sized>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| writer.write_all(b"  "))
    }

    fn next<W: Write + ?Sized>(&self, writer: &mut W, first: bool, broken: bool) -> io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        if broken { self.line(writer) } else { Ok(()) }
    }
}

impl Formatter for Lines {
    fn begin_object<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"{")
    }

    fn end_object<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        let broken = self.depth == 1;
        self.end(writer, b"}", broken)
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first, self.depth == 1)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(if self.depth == 1 { b": " } else { b":" })
    }

    fn begin_array<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"[")
    }

    fn end_array<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        let broken = self.depth == Self::OUTER;
        self.end(writer, b"]", broken)
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first, self.depth == Self::OUTER)
    }
}
