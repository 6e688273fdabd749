//! Which files of a folder are the checkpoint, and what else lies there.

use crate::error::Error;
use crate::looks::looks_like;
use crate::names::{INDEX_NAME, ShardName};
use crate::stale::is_stale;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The whole checkpoint in one file.
const WHOLE_NAME: &str = "model.safetensors";
/// So many missing parts are named.
const MISSING_SHOWN: usize = 3;

/// The files of a checkpoint.
pub(crate) struct Shards {
    pub(crate) index: Option<PathBuf>,
    pub(crate) paths: BTreeSet<PathBuf>,
}

/// Finds the checkpoint of a folder.
pub(crate) fn find_shards(folder: &Path) -> Result<Shards, Error> {
    let (index, whole) = (folder.join(INDEX_NAME), folder.join(WHOLE_NAME));
    if index.exists() {
        return indexed(folder, &index, &whole);
    }
    if whole.exists() {
        return Ok(Shards { index: None, paths: BTreeSet::from([whole]) });
    }
    let names = names(folder)?;
    if let Some(variant) = names.iter().find(|name| name.ends_with(".safetensors.index.json")) {
        let what = format!(
            "holds {variant}, the index of a variant, and no {INDEX_NAME}; put that variant alone into a folder, and its index there \
             under that name"
        );
        return Err(Error::checkpoint(folder, what));
    }
    let found: BTreeSet<_> =
        names.iter().filter(|name| name.ends_with(".safetensors")).map(|name| folder.join(name)).collect();
    for path in &found {
        refuse_missing_shards(path)?;
    }
    match found.len() {
        1 => Ok(Shards { index: None, paths: found }),
        0 => Err(Error::checkpoint(folder, nothing_found(&names))),
        _ => {
            Err(Error::checkpoint(folder, format!("several .safetensors files but no {INDEX_NAME}; name one of them")))
        }
    }
}

/// What an index lists: the shard of each tensor, by name.
pub(crate) fn read_index(index: &Path) -> Result<BTreeMap<String, String>, Error> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let text = std::fs::read(index).map_err(Error::io("cannot read", index))?;
    let parsed: Index = serde_json::from_slice(&text).map_err(|error| {
        let looks = looks_like(&text).filter(|_| !text.trim_ascii_start().starts_with(b"{"));
        let looks = looks.map(|looks| format!("; {looks}")).unwrap_or_default();
        Error::checkpoint(index, format!("not an index of shards: {error}{looks}"))
    })?;
    Ok(parsed.weight_map)
}

/// Refuses a file that is one shard of several, however many of the others are there.
pub(crate) fn refuse_shard(path: &Path) -> Result<(), Error> {
    refuse_missing_shards(path)?;
    match ShardName::of(path) {
        Some(ShardName { number, count, .. }) if count > 1 => {
            Err(Error::checkpoint(path, format!("this is part {number} of {count}, not a checkpoint; name its folder")))
        }
        _ => Ok(()),
    }
}

fn refuse_missing_shards(path: &Path) -> Result<(), Error> {
    let Some(shard) = ShardName::of(path) else { return Ok(()) };
    let missing: Vec<_> =
        (1..=shard.count).filter(|number| !shard.beside(path, *number).exists()).take(MISSING_SHOWN + 1).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.iter().take(MISSING_SHOWN).map(|number| shard.name(*number)).collect::<Vec<_>>().join(", ");
    let more = if missing.len() > MISSING_SHOWN { " and more" } else { "" };
    let what = format!("this is part {} of {}; missing: {names}{more}", shard.number, shard.count);
    Err(Error::checkpoint(path, what))
}

fn indexed(folder: &Path, index: &Path, whole: &Path) -> Result<Shards, Error> {
    let shards: BTreeSet<String> = read_index(index)?.into_values().collect();
    if whole.exists() && !shards.contains(WHOLE_NAME) {
        let what = format!(
            "holds both {WHOLE_NAME} and {INDEX_NAME}, and readers take either; remove the one that is not the checkpoint"
        );
        return Err(Error::checkpoint(folder, what));
    }
    let path = |shard: &String| {
        let path = match Path::new(shard).components().collect::<Vec<_>>().as_slice() {
            [Component::Normal(name)] => folder.join(name),
            _ => return Err(Error::checkpoint(index, format!("shard {shard:?} is not a plain file name"))),
        };
        if !path.exists() {
            return Err(Error::checkpoint(index, format!("lists {shard}, which is missing; fetch it")));
        }
        Ok(path)
    };
    let paths = shards.iter().map(path).collect::<Result<_, _>>()?;
    Ok(Shards { index: Some(index.to_path_buf()), paths })
}

fn names(folder: &Path) -> Result<BTreeSet<String>, Error> {
    let entries = std::fs::read_dir(folder).map_err(Error::io("cannot list", folder))?;
    let name =
        |entry: std::io::Result<std::fs::DirEntry>| entry.map(|entry| entry.file_name().to_string_lossy().into_owned());
    entries.map(name).collect::<Result<_, _>>().map_err(Error::io("cannot list", folder))
}

fn nothing_found(names: &BTreeSet<String>) -> String {
    let other = names.iter().find(|name| is_stale(name, true));
    let other = other.map(|name| format!("; it holds {name}: save that as safetensors")).unwrap_or_default();
    format!("no .safetensors file in this folder{other}")
}
