//! Real checkpoints: step after step, several steps folded into one patch, and how small the patches are.

use pulse_encoder::{EncodeOptions, ProfileChoice, Silent, apply_file, encode_file, verify_file};
use pulse_format::{Header, Step};
use pulse_tests::fixtures::{ChainName, ExcerptChain, StepFile, full_chain_or_skip, steps_in};
use std::path::Path;

fn options(base: &StepFile, target: &StepFile, profile: ProfileChoice) -> EncodeOptions {
    let (base_step, target_step) = (Step(base.step.into()), Step(target.step.into()));
    EncodeOptions { profile, base_step, target_step, run_id: "smollm2".into(), ..EncodeOptions::default() }
}

fn bytes_per_change(header: &Header) -> f64 {
    header.patch_bytes().get() as f64 / header.changes().get() as f64
}

/// Encodes and applies each step to what the step before gave; every file must be the chain's own. Returns the headers.
fn one_by_one(steps: &[StepFile], profile: ProfileChoice, folder: &Path) -> Vec<Header> {
    let (patch, rebuilt) = (folder.join("patch.pulse"), folder.join("rebuilt.safetensors"));
    std::fs::copy(&steps[0].path, &rebuilt).unwrap();
    let headers = steps.windows(2).map(|pair| {
        let header =
            encode_file(&pair[0].path, &pair[1].path, &patch, &options(&pair[0], &pair[1], profile), &Silent).unwrap();
        apply_file(&patch, &rebuilt, &rebuilt, &Silent).unwrap();
        assert!(same_bytes(&rebuilt, &pair[1].path), "step {} differs", pair[1].step);
        header
    });
    headers.collect()
}

/// One patch over all steps, applied to the first.
fn folded(steps: &[StepFile], profile: ProfileChoice, folder: &Path) -> Header {
    let (first, last) = (&steps[0], steps.last().unwrap());
    let (patch, rebuilt) = (folder.join("folded.pulse"), folder.join("folded.safetensors"));
    let header = encode_file(&first.path, &last.path, &patch, &options(first, last, profile), &Silent).unwrap();
    apply_file(&patch, &first.path, &rebuilt, &Silent).unwrap();
    assert!(same_bytes(&rebuilt, &last.path), "folded {} to {}", first.step, last.step);
    verify_file(&patch, &first.path, Some(&last.path), &Silent).unwrap();
    header
}

fn same_bytes(a: &Path, b: &Path) -> bool {
    std::fs::read(a).unwrap() == std::fs::read(b).unwrap()
}

#[test]
fn the_excerpt_step_by_step_and_folded() {
    for name in ChainName::ALL {
        let chain = ExcerptChain::load(name);
        let folder = tempfile::tempdir().unwrap();
        let steps = chain.materialise_all(folder.path());
        for (profile, most) in
            [(ProfileChoice::Contextual, EXCERPT_CONTEXTUAL), (ProfileChoice::Absolute, EXCERPT_ABSOLUTE)]
        {
            let headers = one_by_one(&steps, profile, folder.path());
            for (header, step) in headers.iter().zip(&steps[1..]) {
                assert_eq!(header.changes().get(), chain.changed(step.step).unwrap() as u64, "{name} {}", step.step);
                assert_eq!(header.cells().get(), chain.cells() as u64);
                let found = bytes_per_change(header);
                assert!(found < most, "{name} {} takes {found:.3} bytes a change", step.step);
            }
            let folded = folded(&steps, profile, folder.path());
            let apart: u64 = headers.iter().map(|header| header.patch_bytes().get()).sum();
            assert!(folded.patch_bytes().get() < apart, "a folded patch is smaller than its steps together");
        }
    }
}

/// Bytes a change of the excerpt, where a header of a dozen hashes weighs more than in a whole model. A bound, not a claim.
const EXCERPT_CONTEXTUAL: f64 = 1.6;
const EXCERPT_ABSOLUTE: f64 = 3.0;

#[test]
fn the_whole_chains() {
    let Some(chain) = full_chain_or_skip("the_whole_chains") else { return };
    let folder = tempfile::tempdir().unwrap();
    let young = steps_in(&chain.join("young"));
    let young: Vec<StepFile> = young.into_iter().filter(|file| file.step >= 20).collect();
    assert_eq!(young.iter().map(|file| file.step).collect::<Vec<_>>(), (20..=32).collect::<Vec<_>>());
    let patch = folder.path().join("patch.pulse");
    for pair in young.windows(2) {
        let options = options(&pair[0], &pair[1], ProfileChoice::Contextual);
        encode_file(&pair[0].path, &pair[1].path, &patch, &options, &Silent).unwrap();
        // Bit for bit, without writing 270 MB a step: each base is then what the step before gave.
        verify_file(&patch, &pair[0].path, Some(&pair[1].path), &Silent).unwrap();
    }
    folded(&young, ProfileChoice::Contextual, folder.path());
}

#[test]
fn sizes_on_the_whole_chains() {
    let Some(chain) = full_chain_or_skip("sizes_on_the_whole_chains") else { return };
    let folder = tempfile::tempdir().unwrap();
    for (name, profile, most) in [
        (ChainName::Young, ProfileChoice::Contextual, 0.755),
        (ChainName::Mature, ProfileChoice::Contextual, 0.94),
        (ChainName::Young, ProfileChoice::Absolute, 2.75),
        (ChainName::Mature, ProfileChoice::Absolute, 2.75),
    ] {
        let steps = [25, 26].map(|step| StepFile::in_folder(&chain.join(name.as_str()), step));
        let found = bytes_per_change(&folded(&steps, profile, folder.path()));
        assert!(found <= most, "{name} {profile:?} takes {found:.4} bytes a change, at most {most} is right");
    }
}
