//! The safetensors container: `u64 header length | JSON header | data`, integers little-endian.
//!
//! The crate of that name is not used here: 0.8.0 adds up declared sizes unchecked, which panics where overflow
//! checks are on, and writes metadata in random order.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::{self, Write as _};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use crate::Error;
use crate::bytes::Cursor;
use crate::checkpoint::cell_count;
use crate::limits::Budget;

/// A tensor in the file.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) dtype: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) data: &'a [u8],
}

/// A parsed file.
#[derive(Debug)]
pub(crate) struct SafetensorsFile<'a> {
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) tensors: BTreeMap<String, View<'a>>,
}

#[derive(Default)]
struct Header {
    metadata: BTreeMap<String, String>,
    tensors: BTreeMap<String, Info>,
}

/// By hand, for serde's `flatten` holds the whole header in a form of its own first, at 16 bytes for each that was read
/// and more: beyond [`Limits::HEADER_COST`](crate::Limits::HEADER_COST).
impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut header = Header::default();
        while let Some(key) = map.next_key::<String>()? {
            if key == "__metadata__" {
                header.metadata = map.next_value()?;
                continue;
            }
            match header.tensors.entry(key) {
                Entry::Vacant(entry) => _ = entry.insert(map.next_value()?),
                Entry::Occupied(entry) => return Err(A::Error::custom(format_args!("{} occurs twice", entry.key()))),
            }
        }
        Ok(header)
    }
}

#[derive(Deserialize)]
struct Info {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl<'a> SafetensorsFile<'a> {
    /// Parses and checks a file: the tensors' bytes must fill the data without gap or overlap.
    pub(crate) fn parse(bytes: &'a [u8], budget: &mut Budget) -> Result<Self, Error> {
        const AT: &str = "safetensors header";
        let mut cursor = Cursor::new(bytes, AT);
        let header_len = cursor.u64()?;
        let json = cursor.take_u64(header_len)?;
        let data = cursor.rest();
        budget.spend_header(json.len())?;
        let header: Header = serde_json::from_slice(json).map_err(|error| Error::damaged(AT, error.to_string()))?;
        budget.check_tensors(header.tensors.len())?;

        let mut infos: Vec<_> = header.tensors.into_iter().collect();
        infos.sort_by_key(|(_, info)| info.data_offsets);
        let mut data = Cursor::new(data, "safetensors data");
        let mut position = 0;
        let mut tensors = BTreeMap::new();
        for (name, info) in infos {
            let (start, end) = info.data_offsets;
            let len = end.checked_sub(start).filter(|_| start == position);
            let len = len.ok_or_else(|| Error::damaged(AT, format!("{name} lies at {start}..{end}")))?;
            if cell_count(&info.shape).and_then(|count| count.checked_mul(dtype_size(&info.dtype)?)) != Some(len) {
                let Info { dtype, shape, .. } = info;
                return Err(Error::damaged(AT, format!("{name} of shape {shape:?} and dtype {dtype} has {len} bytes")));
            }
            position = end;
            tensors.insert(name, View { dtype: info.dtype, shape: info.shape, data: data.take_u64(len)? });
        }
        data.finish()?;
        Ok(Self { metadata: header.metadata, tensors })
    }

    /// A metadata value that must be there.
    pub(crate) fn required(&self, key: &str) -> Result<&str, Error> {
        let value = self.metadata.get(key).map(String::as_str);
        value.ok_or_else(|| Error::damaged("safetensors metadata", format!("no {key}")))
    }

    /// A metadata value that must be there and be a number.
    pub(crate) fn required_number(&self, key: &str) -> Result<u64, Error> {
        let value = self.required(key)?;
        value.parse().map_err(|_| Error::damaged("safetensors metadata", format!("{key} is {value:?}, not a number")))
    }
}

fn dtype_size(dtype: &str) -> Option<u64> {
    match dtype {
        "U8" => Some(1),
        "BF16" | "U16" => Some(2),
        "I32" | "U32" => Some(4),
        _ => None,
    }
}

/// Writes headers: entries are added in the order of their data.
pub(crate) struct HeaderWriter {
    json: String,
    position: u64,
}

impl HeaderWriter {
    pub(crate) fn new(metadata: &BTreeMap<String, String>) -> Self {
        let mut json = String::from("{\"__metadata__\":{");
        for (number, (key, value)) in metadata.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            _ = write!(json, "{comma}{}:{}", quoted(key), quoted(value));
        }
        json.push('}');
        Self { json, position: 0 }
    }

    /// Adds a one-dimensional tensor of `count` elements.
    pub(crate) fn add(&mut self, name: &str, dtype: &str, count: usize) {
        let (count, start) = (count as u64, self.position);
        self.position += count * dtype_size(dtype).unwrap_or(1);
        let end = self.position;
        _ = write!(
            self.json,
            ",{}:{{\"dtype\":\"{dtype}\",\"shape\":[{count}],\"data_offsets\":[{start},{end}]}}",
            quoted(name)
        );
    }

    /// The file up to its data, with room for the data reserved.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.json.push('}');
        // Readers that map the file want the data aligned.
        while !self.json.len().is_multiple_of(8) {
            self.json.push(' ');
        }
        let mut file = Vec::with_capacity(8 + self.json.len() + self.position as usize);
        file.extend_from_slice(&(self.json.len() as u64).to_le_bytes());
        file.extend_from_slice(self.json.as_bytes());
        file
    }
}

fn quoted(text: &str) -> serde_json::Value {
    serde_json::Value::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn parse(bytes: &[u8]) -> Result<SafetensorsFile<'_>, Error> {
        SafetensorsFile::parse(bytes, &mut Budget::new(&Limits::default()))
    }

    fn file(json: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(json.as_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    fn sample() -> Vec<u8> {
        let mut header = HeaderWriter::new(&BTreeMap::from([("key".into(), "a \"value\"\n".into())]));
        header.add("x\"y", "I32", 1);
        header.add("a", "U8", 2);
        header.add("none", "BF16", 0);
        let mut bytes = header.finish();
        bytes.extend_from_slice(&[1, 0, 0, 0, 8, 9]);
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = sample();
        let file = parse(&bytes).unwrap();
        assert_eq!(file.required("key").unwrap(), "a \"value\"\n");
        assert_eq!(file.tensors["x\"y"].data, [1, 0, 0, 0]);
        assert_eq!(file.tensors["a"].data, [8, 9]);
        assert_eq!(file.tensors["none"].shape, [0]);
    }

    #[test]
    fn the_reference_crate_reads_it_too() {
        let bytes = sample();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(file.tensor("a").unwrap().data(), [8, 9]);
    }

    #[test]
    fn lies_are_rejected() {
        let entry = |shape: &str, start: u64, end: u64| {
            format!("{{\"a\":{{\"dtype\":\"U8\",\"shape\":{shape},\"data_offsets\":[{start},{end}]}}}}")
        };
        for (json, code) in [
            (entry("[2]", 0, 2), "truncated"),
            (entry("[0]", 0, 0), "damaged"),
            (entry("[1]", 1, 2), "damaged"),
            (entry("[1]", 1, 0), "damaged"),
            (entry("[2]", 0, 1), "damaged"),
            (entry("[18446744073709551615]", 0, u64::MAX), "truncated"),
            (entry("[18446744073709551615,2]", 0, 1), "damaged"),
            (entry("[-1]", 0, 1), "damaged"),
            (format!("{{\"a\":{0},\"a\":{0}}}", "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}"), "damaged"),
            ("{".into(), "damaged"),
            ("[]".into(), "damaged"),
        ] {
            let bytes = file(&json, &[5]);
            assert_eq!(parse(&bytes).unwrap_err().code(), code, "{json}");
        }
        assert!(parse(&file(&entry("[1]", 0, 1), &[5])).is_ok());
        assert_eq!(parse(&u64::MAX.to_le_bytes()).unwrap_err().code(), "truncated");
        assert_eq!(parse(&sample()).unwrap().required("other").unwrap_err().code(), "damaged");
        assert_eq!(parse(&sample()).unwrap().required_number("key").unwrap_err().code(), "damaged");
    }
}
