//! What a file is that is not what it should be, and what to do about it.

use std::fmt;

/// A guess from the first bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Looks {
    what: &'static str,
    advice: &'static str,
}

impl fmt::Display for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it looks like {}: {}", self.what, self.advice)
    }
}

const PYTORCH: &str = "load it with torch and save it with safetensors.torch.save_file";
const UNPACK: &str = "unpack it first";
const ADDRESS: &str = "the server sent it instead of the file; check the address, and whether it wants a login";

/// Beginnings of files, what they are, and the way on.
const BEGINNINGS: &[(&[u8], &str, &str)] = &[
    (
        b"version https://git-lfs.github.com/spec/",
        "a Git LFS pointer",
        "it stands for the file; fetch that with git lfs pull",
    ),
    (&pulse_format::layout::MAGIC, "a Pulse patch", "a checkpoint is needed here; a patch is named before its base"),
    (b"GGUF", "a GGUF model", "use the safetensors checkpoint that it was made from"),
    (b"\x80\x02", "a pickled PyTorch checkpoint", PYTORCH),
    (b"\x80\x03", "a pickled PyTorch checkpoint", PYTORCH),
    (b"\x80\x04", "a pickled PyTorch checkpoint", PYTORCH),
    (b"\x80\x05", "a pickled PyTorch checkpoint", PYTORCH),
    (b"PK\x03\x04", "a zip archive, as PyTorch checkpoints (.bin, .pt, .pth) are", PYTORCH),
    (b"\x89HDF", "an HDF5 file", "save the weights as safetensors"),
    (b"\x1f\x8b", "a gzip archive", UNPACK),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", UNPACK),
    (b"\xfd7zXZ\x00", "an xz archive", UNPACK),
    (b"<?xml", "an XML document, as object stores send for errors", ADDRESS),
];

/// What `file` looks like, if it is something that people take for a checkpoint or a patch.
pub(crate) fn looks_like(file: &[u8]) -> Option<Looks> {
    if file.is_empty() {
        return Some(Looks { what: "an empty file", advice: "fetch or write it again" });
    }
    let found = BEGINNINGS.iter().find(|(beginning, ..)| file.starts_with(beginning));
    if let Some(&(_, what, advice)) = found {
        return Some(Looks { what, advice });
    }
    let text = file.trim_ascii_start();
    let is_html = |tag: &[u8]| text.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag));
    if is_html(b"<!doctype html") || is_html(b"<html") {
        return Some(Looks { what: "an HTML page", advice: ADDRESS });
    }
    // Eight bytes of length, then JSON.
    if file.get(4..9) == Some(b"\0\0\0\0{") {
        return Some(Looks { what: "a safetensors checkpoint", advice: "the patch is named before its base" });
    }
    if text.starts_with(b"{") {
        return Some(Looks { what: "JSON", advice: "name the file that holds the data, or its folder" });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_taken_for_what_they_are() {
        let cases: [(&[u8], &str); 8] = [
            (b"", "an empty file"),
            (b"\n <!DOCTYPE html><html>", "an HTML page"),
            (b"<HTML>", "an HTML page"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:", "a Git LFS pointer"),
            (b"PK\x03\x04", "a zip archive, as PyTorch checkpoints (.bin, .pt, .pth) are"),
            (b"\x80\x02}q\x00", "a pickled PyTorch checkpoint"),
            (b"\x10\x01\0\0\0\0\0\0{\"a\":", "a safetensors checkpoint"),
            (b"{\"error\":", "JSON"),
        ];
        for (file, what) in cases {
            assert_eq!(looks_like(file).map(|looks| looks.what), Some(what));
        }
        assert_eq!(looks_like(&[7; 100]), None);
    }
}
