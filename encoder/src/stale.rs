//! Which files beside a checkpoint hold its weights once more, and so would be stale beside another step's.

use crate::names::{INDEX_NAME, ShardName};
use std::path::Path;

/// Endings of models made from a checkpoint, wherever they lie.
const EXPORTS: [&str; 9] =
    [".gguf", ".ggml", ".onnx", ".onnx_data", ".onnx.data", ".tflite", ".nemo", ".keras", ".mlmodel"];
/// Endings of what frameworks save beside a checkpoint: weights, or the state of the optimizer at that step. In a folder below they may
/// be anything.
const FRAMEWORKS: [&str; 7] = [".h5", ".msgpack", ".ckpt", ".pt", ".pth", ".ot", ".npz"];
/// How files begin that hold a model under the ending `.bin`, which other files have too.
const BINARIES: [&str; 5] = ["pytorch_model", "diffusion_pytorch_model", "model", "openvino_model", "ggml"];

/// Whether a file of this name, which is no part of the checkpoint, is stale beside another step's weights: it holds those of its own step
/// in another format, sharding or precision, or is an index of such. `beside` says that it lies in the checkpoint's folder, not below it.
pub(crate) fn is_stale(name: &str, beside: bool) -> bool {
    let name = name.to_ascii_lowercase();
    let file = name.strip_suffix(".index.json").unwrap_or(&name);
    let ends = |endings: &[&str]| endings.iter().any(|ending| file.ends_with(ending));
    let binary = file.ends_with(".bin") && BINARIES.iter().any(|beginning| file.starts_with(beginning));
    // What another reader calls the whole; a variant; a part of another sharding.
    let consolidated = file.starts_with("consolidated") && ends(&[".safetensors", ".pth"]);
    let variant = file.starts_with("model.") && file.ends_with(".safetensors") && name != INDEX_NAME;
    let shard = ShardName::of(Path::new(file)).is_some_and(|shard| shard.stem == "model");
    ends(&EXPORTS) || consolidated || beside && (ends(&FRAMEWORKS) || binary || variant || shard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_the_weights_are_stale_and_other_files_are_not() {
        for name in ["model.gguf", "model.onnx_data", "consolidated.00.pth", "consolidated-00001-of-00011.safetensors"]
        {
            assert!(is_stale(name, true) && is_stale(name, false), "{name}");
        }
        for name in
            ["pytorch_model.bin", "optimizer.pt", "model.fp16.safetensors.index.json", "voice.pt", "tf_model.h5"]
        {
            assert!(is_stale(name, true) && !is_stale(name, false), "{name}");
        }
        for name in
            [INDEX_NAME, "config.json", "tokenizer.model", "training_args.bin", "mtp.safetensors", "params.json"]
        {
            assert!(!is_stale(name, true) && !is_stale(name, false), "{name}");
        }
    }
}
