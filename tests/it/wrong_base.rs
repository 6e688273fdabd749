//! A patch on the wrong checkpoint: refused by name, and nothing is written.

use crate::support::cells::{Cells, Pair, TestTensor};
use crate::support::listing;
use crate::support::paths::{apply_pushed, apply_whole};
use pulse_encoder::{EncodeOptions, Error, ProfileChoice, Silent, Zstd, apply_file, encode_file, verify_file};
use pulse_format::Dtype;
use std::path::PathBuf;

/// A folder with a pair, its patch, and a file that a failed apply must leave alone.
struct Case {
    folder: tempfile::TempDir,
    pair: Pair,
    patch: Vec<u8>,
}

const OLD: &[u8] = b"what was here before";

impl Case {
    fn new(options: &EncodeOptions) -> Self {
        let (folder, pair) = (tempfile::tempdir().unwrap(), Pair::mixed());
        let patch = pair.encode(options);
        std::fs::write(folder.path().join("patch"), &patch).unwrap();
        std::fs::write(folder.path().join("old"), OLD).unwrap();
        Self { folder, pair, patch }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Applying to `base` fails, writes nothing over an old file, makes no new one, and leaves no temporary one.
    fn fails(&self, base: &Pair) -> Error {
        std::fs::write(self.path("base"), base.base_file()).unwrap();
        let error = apply_file(&self.path("patch"), &self.path("base"), &self.path("old"), &Silent).unwrap_err();
        let again = apply_file(&self.path("patch"), &self.path("base"), &self.path("new"), &Silent).unwrap_err();
        let verified = verify_file(&self.path("patch"), &self.path("base"), None, &Silent).unwrap_err();
        assert_eq!([error.code(), verified.code()], [again.code(); 2]);
        let in_place = apply_file(&self.path("patch"), &self.path("base"), &self.path("base"), &Silent).unwrap_err();
        assert_eq!(in_place.code(), error.code());
        assert_eq!(std::fs::read(self.path("base")).unwrap(), base.base_file());
        assert_eq!(std::fs::read(self.path("old")).unwrap(), OLD);
        assert_eq!(listing(self.folder.path()), ["base", "old", "patch"]);
        error
    }
}

fn flip(cells: &mut [u8], bit: usize) {
    cells[bit / 8] ^= 1 << (bit % 8);
}

#[test]
fn one_wrong_bit_anywhere_in_the_base_is_found() {
    let case = Case::new(&Pair::mixed_options());
    for (index, tensor) in case.pair.tensors.iter().enumerate() {
        let bits = tensor.base.len() * 8;
        for bit in [0, 15, bits / 2, bits - 1] {
            let mut wrong = case.pair.clone();
            flip(&mut wrong.tensors[index].base, bit);
            let error = case.fails(&wrong);
            let text = error.to_string();
            assert_eq!(error.code(), "wrong_base", "{text}");
            assert!(text.contains("wrong base: segment ") && text.contains("the patch starts from "), "{text}");
        }
    }
}

/// In memory as well: every bit of every tensor, a sample of the larger ones. Only where an absolute segment writes does the
/// base not matter.
#[test]
fn the_reference_finds_every_wrong_bit() {
    let case = Case::new(&Pair::mixed_options());
    let (base, target) = (case.pair.base_cells(), case.pair.target_cells());
    for TestTensor { name, dtype, base: cells, target: cells_after, .. } in &case.pair.tensors {
        let width = dtype.cell_bytes();
        for bit in (0..cells.len() * 8).step_by(if cells.len() > 100 { 37 } else { 1 }) {
            let mut wrong: Cells = base.clone();
            flip(wrong.get_mut(name).unwrap(), bit);
            let cell = bit / 8 / width * width..bit / 8 / width * width + width;
            let overwritten = dtype.float_format().is_none() && cells[cell.clone()] != cells_after[cell];
            for result in [
                apply_whole(&case.patch, &wrong, &Zstd::default()),
                apply_pushed(&case.patch, || 50, &wrong, &Zstd::default()),
            ] {
                match result {
                    Ok(cells) => assert!(overwritten && cells == target, "bit {bit} of {name}"),
                    Err(error) => assert!(!overwritten && error.code() == "wrong_base", "bit {bit} of {name}: {error}"),
                }
            }
        }
    }
}

/// An absolute segment takes any base, but only if the target comes out of it.
#[test]
fn absolute_patches_take_a_base_that_differs_only_where_they_write() {
    let case = Case::new(&EncodeOptions { profile: ProfileChoice::Absolute, ..Pair::mixed_options() });
    let changed =
        |cells: &TestTensor| cells.base.iter().zip(&cells.target).position(|(base, target)| base != target).unwrap();
    let mut other = case.pair.clone();
    let byte = changed(&other.tensors[0]);
    other.tensors[0].base[byte] ^= 0xff;
    std::fs::write(case.path("base"), other.base_file()).unwrap();
    apply_file(&case.path("patch"), &case.path("base"), &case.path("new"), &Silent).unwrap();
    assert!(std::fs::read(case.path("new")).unwrap() == case.pair.target_file());
    std::fs::remove_file(case.path("new")).unwrap();

    let mut wrong = case.pair.clone();
    let cells = wrong.tensors[0].base.chunks(2).zip(wrong.tensors[0].target.chunks(2));
    let unchanged = cells.into_iter().position(|(base, target)| base == target).unwrap();
    wrong.tensors[0].base[2 * unchanged] ^= 1;
    assert_eq!(case.fails(&wrong).code(), "wrong_base");
}

#[test]
fn another_target_is_named() {
    let case = Case::new(&Pair::mixed_options());
    let (base, target) = case.pair.write(case.folder.path());
    verify_file(&case.path("patch"), &base, Some(&target), &Silent).unwrap();
    for (index, tensor) in case.pair.tensors.iter().enumerate() {
        let mut other = case.pair.clone();
        let byte = tensor.target.len() / 2;
        other.tensors[index].target[byte] ^= 4;
        std::fs::write(&target, other.target_file()).unwrap();
        let error = verify_file(&case.path("patch"), &base, Some(&target), &Silent).unwrap_err();
        assert_eq!(error.code(), "wrong_target");
        assert_eq!(
            error.to_string(),
            format!("tensor {} differs from the target at byte {byte} of its data", tensor.name)
        );
    }
}

fn edited(edit: impl FnOnce(&mut Vec<TestTensor>)) -> Pair {
    let mut pair = Pair::mixed();
    edit(&mut pair.tensors);
    pair
}

/// Other tensors than the patch's: which, and that an anchor is the way out.
#[test]
fn other_tensors_are_named() {
    let case = Case::new(&Pair::mixed_options());
    let cases: [(Pair, &[&str]); 5] = [
        (edited(|tensors| _ = tensors.remove(2)), &["only in the target: scale"]),
        (
            edited(|tensors| tensors.push(TestTensor::noise("extra", Dtype::U8, &[4], 0, 1))),
            &["only in the base: extra"],
        ),
        (
            edited(|tensors| tensors[3].name = "count".into()),
            &["only in the base: count", "only in the target: counts"],
        ),
        (edited(|tensors| tensors[0].shape = vec![70, 30]), &["layers.0.w: BF16 [70, 30] before, BF16 [30, 70] after"]),
        (edited(|tensors| tensors[0].dtype = Dtype::F16), &["layers.0.w: F16 [30, 70] before, BF16 [30, 70] after"]),
    ];
    for (base, expected) in cases {
        let error = case.fails(&base);
        assert!(matches!(error, Error::Tensors(_)), "{error}");
        check_tensors_text(&error.to_string(), expected);
    }
}

fn check_tensors_text(text: &str, expected: &[&str]) {
    assert!(text.contains("anchor"), "{text}");
    for line in expected {
        assert!(text.lines().any(|found| found.trim() == *line), "no line {line:?} in {text}");
    }
}

/// The same when two checkpoints do not match while encoding; no patch is left.
#[test]
fn a_patch_between_other_tensors_is_not_made() {
    let base = Pair::mixed();
    let cases: [(Pair, &[&str]); 3] = [
        (edited(|tensors| _ = tensors.remove(2)), &["only in the base: scale"]),
        (
            edited(|tensors| tensors.push(TestTensor::noise("extra", Dtype::U8, &[4], 0, 1))),
            &["only in the target: extra"],
        ),
        (edited(|tensors| tensors[1].shape = vec![13, 5]), &["layers.1.norm: BF16 [65] before, BF16 [13, 5] after"]),
    ];
    for (target, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("base"), base.base_file()).unwrap();
        std::fs::write(path("target"), target.target_file()).unwrap();
        let error = encode_file(&path("base"), &path("target"), &path("patch"), &EncodeOptions::default(), &Silent)
            .unwrap_err();
        assert_eq!(error.code(), "tensors");
        check_tensors_text(&error.to_string(), expected);
        assert_eq!(listing(folder.path()), ["base", "target"]);
    }
}

/// Of many, the first few.
#[test]
fn many_other_tensors_are_counted() {
    let case = Case::new(&Pair::mixed_options());
    let base = edited(|tensors| {
        tensors.extend((0..20).map(|i| TestTensor::noise(&format!("extra.{i:02}"), Dtype::U8, &[4], 0, i)));
    });
    let text = case.fails(&base).to_string();
    assert!(text.contains("extra.07 and 12 more") && !text.contains("extra.08"), "{text}");
}

/// A damaged patch leaves as little behind as a wrong base.
#[test]
fn a_damaged_patch_writes_nothing() {
    let mut case = Case::new(&Pair::mixed_options());
    *case.patch.last_mut().unwrap() ^= 1;
    std::fs::write(case.path("patch"), &case.patch).unwrap();
    let pair = case.pair.clone();
    assert_eq!(case.fails(&pair).code(), "damaged");
    case.patch.pop();
    std::fs::write(case.path("patch"), &case.patch).unwrap();
    assert_eq!(case.fails(&pair).code(), "truncated");
}

#[test]
fn a_folder_on_the_wrong_base_is_not_begun() {
    let case = Case::new(&Pair::mixed_options());
    let mut wrong = case.pair.clone();
    flip(&mut wrong.tensors[0].base, 3);
    std::fs::create_dir(case.path("folder")).unwrap();
    std::fs::write(case.path("folder").join("model.safetensors"), wrong.base_file()).unwrap();
    let error = apply_file(&case.path("patch"), &case.path("folder"), &case.path("new"), &Silent).unwrap_err();
    assert_eq!(error.code(), "wrong_base");
    assert_eq!(listing(case.folder.path()), ["folder", "old", "patch"]);
}

/// Another step differs in so many cells that ranks of the patch do not exist in it: still a wrong base, to be planned around, not a
/// damaged patch, to be fetched again.
#[test]
fn another_step_is_a_wrong_base() {
    use pulse_tests::fixtures::{ChainName, ExcerptChain};
    let folder = tempfile::tempdir().unwrap();
    let chain = ExcerptChain::load(ChainName::Mature);
    let step = |number: u32| {
        let path = folder.path().join(number.to_string());
        std::fs::write(&path, chain.step_bytes(number)).unwrap();
        path
    };
    let patch = folder.path().join("patch");
    encode_file(&step(25), &step(26), &patch, &EncodeOptions::default(), &Silent).unwrap();
    for other in [20, 22, 23, 24, 26, 27, 28] {
        let error = verify_file(&patch, &step(other), None, &Silent).unwrap_err();
        assert_eq!(error.code(), "wrong_base", "step {other}: {error}");
    }
}
