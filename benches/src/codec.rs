//! Ours and the peers' formats behind one face: encode, decode, apply, each on one thread and in memory.

use pulse_encoder::{Checkpoint, EncodeOptions, PatchFile, ProfileChoice, Silent, Sink, StoredTensor, Zstd};
use pulse_format::SegmentDecoder;
use pulse_interop::PatchFormat;
use std::collections::HashMap;
use std::sync::Mutex;

/// The cells of every tensor, by the order of [`Checkpoint::tensors`].
pub type Cells = Vec<Vec<u16>>;

/// A patch format under test. Every tensor is BF16.
pub trait Codec {
    /// What the table calls it.
    fn name(&self) -> String;
    /// Compares and encodes.
    fn encode(&self, base: &Checkpoint, target: &Checkpoint) -> Vec<u8>;
    /// Checks and decodes to positions and values, whatever form the format gives them; returns how many changes.
    fn decode(&self, patch: &[u8], base: &Checkpoint) -> u64;
    /// Turns `cells`, which equal the base, into the target.
    fn apply(&self, patch: &[u8], base: &Checkpoint, cells: &mut Cells);
}

/// All, ours first.
pub fn all() -> Vec<Box<dyn Codec>> {
    let mut codecs: Vec<Box<dyn Codec>> = [ProfileChoice::Auto, ProfileChoice::Contextual, ProfileChoice::Absolute]
        .map(|profile| Box::new(Ours(profile)) as Box<dyn Codec>)
        .into();
    codecs.extend(pulse_interop::all().into_iter().map(|format| Box::new(Peer(format)) as Box<dyn Codec>));
    codecs
}

struct Ours(ProfileChoice);

impl Codec for Ours {
    fn name(&self) -> String {
        match self.0 {
            ProfileChoice::Auto => "Pulse".into(),
            ProfileChoice::Contextual => "Pulse contextual".into(),
            ProfileChoice::Absolute => "Pulse absolute".into(),
        }
    }

    fn encode(&self, base: &Checkpoint, target: &Checkpoint) -> Vec<u8> {
        let options = EncodeOptions { profile: self.0, ..EncodeOptions::default() };
        let patch = pulse_encoder::encode(base, target, &options, &Silent).expect("the pair has the same tensors");
        patch.into_bytes().expect("the payload can be read back")
    }

    fn decode(&self, patch: &[u8], _: &Checkpoint) -> u64 {
        let header = pulse_format::Header::read(patch, &Zstd::default(), &Default::default()).expect("our own header");
        let mut decoder = SegmentDecoder::default();
        let mut count = 0;
        for index in 0..header.segments.len() {
            let segment = header.segment(index).expect("our own header");
            let range = segment.entry().byte_range();
            let payload = &patch[range.start as usize..range.end as usize];
            segment.check_payload(payload).expect("our own payload");
            count += decoder.decode(&segment, payload, &Zstd::default()).expect("our own payload").len();
        }
        count as u64
    }

    fn apply(&self, patch: &[u8], base: &Checkpoint, cells: &mut Cells) {
        struct Memory<'a> {
            cells: HashMap<&'a str, Mutex<&'a mut [u8]>>,
        }
        impl Sink for Memory<'_> {
            fn take(&self, stored: &StoredTensor, start: usize, bytes: &[u8]) -> Result<(), pulse_encoder::Error> {
                let mut cells = self.cells[stored.tensor.name.as_str()].lock().expect("no other run panicked");
                cells[start..start + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
        }
        let names = base.tensors().iter().map(|stored| stored.tensor.name.as_str());
        let memory = Memory {
            cells: names.zip(cells).map(|(name, cells)| (name, Mutex::new(bytemuck::cast_slice_mut(cells)))).collect(),
        };
        let patch = PatchFile::from_bytes(patch.to_vec()).expect("our own patch");
        pulse_encoder::apply(&patch, base, &memory, &Silent).expect("our own patch on its base");
    }
}

struct Peer(Box<dyn PatchFormat>);

impl Codec for Peer {
    fn name(&self) -> String {
        self.0.name().into()
    }

    fn encode(&self, base: &Checkpoint, target: &Checkpoint) -> Vec<u8> {
        let steps = pulse_interop::Steps { base: 0, target: 1 };
        self.0.encode(steps, &view(base), &view(target)).expect("the pair has the same tensors")
    }

    fn decode(&self, patch: &[u8], base: &Checkpoint) -> u64 {
        self.0.decode(patch, &view(base), &Default::default()).expect("the peer's own patch").change_count()
    }

    fn apply(&self, patch: &[u8], base: &Checkpoint, cells: &mut Cells) {
        self.0.apply(patch, &view(base), cells, &Default::default()).expect("the peer's own patch on its base");
    }
}

/// The same checkpoint as the peers' crate sees it.
fn view(checkpoint: &Checkpoint) -> pulse_interop::Checkpoint<'_> {
    let tensors = checkpoint.tensors().iter().map(|stored| pulse_interop::Tensor {
        name: stored.tensor.name.as_str(),
        shape: stored.tensor.shape.clone(),
        cells: cells(checkpoint, stored),
    });
    pulse_interop::Checkpoint::new(tensors.collect()).expect("names are unique")
}

/// The cells of a mapped BF16 tensor.
pub fn cells<'a>(checkpoint: &'a Checkpoint, stored: &StoredTensor) -> &'a [u16] {
    bytemuck::try_cast_slice(checkpoint.bytes(stored)).expect("bench files keep cells aligned")
}
