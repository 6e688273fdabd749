//! The header of a `.safetensors` file: `u64 length | JSON | data`, integers little-endian.
//!
//! The crate of that name is not used here: 0.8.0 adds declared sizes unchecked, so that a hostile header panics in one build and
//! wraps in another. Here every sum and product is checked.

use crate::looks::looks_like;
use crate::printable::printable;
use pulse_format::{Dtype, Tensor};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;

/// The limit that readers of the format agree on.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// The key of the header that is no tensor.
const METADATA: &str = "__metadata__";

/// Where the tensors of a file are.
pub(crate) struct SafetensorsHeader {
    /// Bytes before the first tensor.
    pub(crate) data_start: usize,
    /// Each tensor and the range of its bytes in the file.
    pub(crate) tensors: Vec<(Tensor, Range<usize>)>,
}

/// The header of a file that holds `tensors`, and the range of each one's bytes in it: the widest elements first, as the library of that
/// name has them, so that all are aligned.
///
/// # Errors
/// What such a file cannot hold.
pub(crate) fn write_safetensors_header(tensors: &[Tensor]) -> Result<(Vec<u8>, Vec<Range<usize>>), String> {
    let mut names = BTreeSet::from([METADATA]);
    if let Some(twice) = tensors.iter().find(|tensor| !names.insert(&tensor.name)) {
        return Err(format!("a safetensors file cannot hold a tensor named {}", printable(&twice.name)));
    }
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    order.sort_by_key(|index| (Reverse(tensors[*index].dtype.element_bits()), tensors[*index].order()));
    let mut ranges = vec![0..0; tensors.len()];
    // Readers ask which library wrote it.
    let mut json = String::from(r#"{"__metadata__":{"format":"pt"}"#);
    let mut end = 0;
    for index in order {
        let tensor = &tensors[index];
        let start = end;
        end += tensor.cells().unwrap_or_default().get() as usize * tensor.dtype.cell_bytes();
        let name = serde_json::Value::from(tensor.name.as_str());
        let shape = serde_json::Value::from(tensor.shape.as_slice());
        let _ = write!(
            json,
            r#",{name}:{{"dtype":"{}","shape":{shape},"data_offsets":[{start},{end}]}}"#,
            tensor.dtype.name()
        );
        ranges[index] = start..end;
    }
    json.push('}');
    const ALIGNMENT: usize = 8;
    json.extend(std::iter::repeat_n(' ', json.len().next_multiple_of(ALIGNMENT) - json.len()));
    if json.len() as u64 > MAX_HEADER_BYTES {
        return Err(format!("its header would have {} bytes, and readers take {MAX_HEADER_BYTES}", json.len()));
    }
    let header = [&(json.len() as u64).to_le_bytes(), json.as_bytes()].concat();
    ranges.iter_mut().for_each(|range| *range = range.start + header.len()..range.end + header.len());
    Ok((header, ranges))
}

#[derive(Deserialize)]
struct Json {
    #[serde(rename = "__metadata__", default)]
    _metadata: IgnoredAny,
    #[serde(flatten)]
    tensors: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// Reads and checks the header of `file`: tensors fill the data without gap or overlap, each as many bytes as its shape needs.
///
/// # Errors
/// What is wrong, and what to do where that is known.
pub(crate) fn read_safetensors_header(file: &[u8]) -> Result<SafetensorsHeader, String> {
    let (json, data_start) = json(file)?;
    let json: Json =
        serde_json::from_slice(json).map_err(|error| format!("not a safetensors file: its header: {error}"))?;
    let mut entries: Vec<_> = json.tensors.into_iter().collect();
    entries.sort_by_key(|(_, entry)| entry.data_offsets);
    let data_bytes = (file.len() - data_start) as u64;
    let expected = entries.iter().map(|(_, entry)| entry.data_offsets.1).max().unwrap_or_default();
    let mut end = 0;
    let mut tensors = Vec::with_capacity(entries.len());
    for (name, entry) in entries {
        let shown = printable(&name).into_owned();
        let (start, stop) = entry.data_offsets;
        if start != end || stop < start {
            return Err(format!("tensor {shown} leaves a gap, overlaps another or ends before it begins"));
        }
        end = stop;
        let dtype = Dtype::from_name(&entry.dtype)
            .ok_or_else(|| format!("tensor {shown} has the unknown dtype {}", printable(&entry.dtype)))?;
        let tensor = Tensor { name, dtype, shape: entry.shape };
        let cells = tensor.cells().ok_or_else(|| format!("tensor {shown} has an impossible shape"))?;
        if cells.get().checked_mul(dtype.cell_bytes() as u64) != Some(stop - start) {
            return Err(format!("tensor {shown} has other bytes than its shape needs"));
        }
        if stop <= data_bytes {
            tensors.push((tensor, data_start + start as usize..data_start + stop as usize));
        }
    }
    let declared = (data_start as u64).checked_add(expected);
    match declared {
        Some(declared) if declared == file.len() as u64 => Ok(SafetensorsHeader { data_start, tensors }),
        Some(declared) if declared < file.len() as u64 => Err(format!(
            "{} bytes by its header, {} there: what follows the last tensor belongs to no safetensors file",
            declared,
            file.len()
        )),
        _ => Err(cut_short(data_start as u128 + u128::from(expected), file.len())),
    }
}

/// The JSON, and where it ends.
fn json(file: &[u8]) -> Result<(&[u8], usize), String> {
    let refuse = || match looks_like(file) {
        Some(looks) => format!("not a safetensors file: {looks}"),
        None => "not a safetensors file".to_string(),
    };
    let Some((length, rest)) = file.split_first_chunk() else { return Err(refuse()) };
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER_BYTES || rest.first() != Some(&b'{') {
        return Err(refuse());
    }
    let json = rest.get(..length as usize).ok_or_else(|| cut_short(u128::from(length) + 8, file.len()))?;
    Ok((json, 8 + length as usize))
}

fn cut_short(declared: u128, found: usize) -> String {
    format!("cut short: at least {declared} bytes by its header, {found} there; fetch it again")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(json: &str, data: usize) -> Vec<u8> {
        let mut file = (json.len() as u64).to_le_bytes().to_vec();
        file.extend(json.as_bytes());
        file.resize(file.len() + data, 0);
        file
    }

    fn fault(file: &[u8]) -> String {
        read_safetensors_header(file).err().unwrap_or_default()
    }

    #[test]
    fn sums_and_products_are_checked() {
        let (far, most) = (1u64 << 50, u64::MAX);
        let cases = [
            (format!(r#"{{"a":{{"dtype":"U8","shape":[{most}],"data_offsets":[0,{most}]}}}}"#), "impossible shape"),
            (format!(r#"{{"a":{{"dtype":"U8","shape":[{far}],"data_offsets":[0,{far}]}}}}"#), "cut short: "),
            (r#"{"a":{"dtype":"BF16","shape":[3],"data_offsets":[0,4]}}"#.into(), "other bytes"),
            (format!(r#"{{"a":{{"dtype":"U8","shape":[{most},{most}],"data_offsets":[0,1]}}}}"#), "impossible shape"),
            (r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}"#.into(), "ends before it begins"),
            (r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}}"#.into(), "leaves a gap"),
            (r#"{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}"#.into(), "its header: "),
            (r#"{"a":{"dtype":"U3","shape":[4],"data_offsets":[0,4]}}"#.into(), "unknown dtype U3"),
            (r#"{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#.into(), "belongs to no safetensors file"),
            (r#"{"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}}"#.into(), "cut short: "),
        ];
        for (json, text) in cases {
            let found = fault(&file(&json, 4));
            assert!(found.contains(text), "{text:?} in {found:?} for {json}");
        }
        assert!(fault(&[0xff; 100]).contains("not a safetensors file"));
        assert!(fault(&file("{}", 0)).is_empty(), "no tensor is a checkpoint too");
    }

    #[test]
    fn metadata_and_padding_are_read_over() {
        let json = r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[],"data_offsets":[2,3]},"a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}   "#;
        let header = read_safetensors_header(&file(json, 3)).ok().unwrap();
        let start = 8 + json.len();
        let found: Vec<_> =
            header.tensors.iter().map(|(tensor, range)| (tensor.name.as_str(), range.clone())).collect();
        assert_eq!((header.data_start, found), (start, vec![("a", start..start + 2), ("b", start + 2..start + 3)]));
    }

    /// Every prefix of a file is cut short, or no safetensors file yet.
    #[test]
    fn a_cut_download_says_both_numbers() {
        let whole = file(r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#, 4);
        for end in 9..whole.len() {
            let text = fault(&whole[..end]);
            assert!(text.starts_with("cut short: ") && text.contains(&format!(", {end} there")), "{text}");
        }
    }
}
