//! Two checkpoints into a patch: one pass over the data, segments in parallel, models per batch.

use crate::cast::Cast;
use crate::checkpoint::Checkpoint;
use crate::cut::cut;
use crate::error::Error;
use crate::models;
use crate::pair::{Pair, PieceCells};
use crate::profile::{ByPosition, beats_contextual};
use crate::progress::Progress;
use crate::zstd::Zstd;
use pulse_format::contextual::{ContextualChanges, Tokens};
use pulse_format::layout::{MAX_NAME_BYTES, MAX_RANK, MAX_SEGMENT_CELLS};
use pulse_format::model::{ContextModel, Histogram};
use pulse_format::positional::PositionalChanges;
use pulse_format::scan::{Fingerprints, PiecePair};
use pulse_format::{
    Damage, Fingerprint, FloatFormat, Header, Limits, Piece, Profile, Segment, Step, Tensor, with_float_cell,
};
use pulse_simd::{encode_contextual, scan_absolute, scan_contextual, tokens};
use rayon::prelude::*;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Payload kept in memory before it goes to a temporary file, in bytes.
const SPOOL_BYTES: usize = 64 << 20;
/// A batch of segments that share models ends at this many changes (about 3 bytes each) …
const BATCH_CHANGES: usize = 4 << 20;
/// … or segments (20 kB of histograms each).
const BATCH_SEGMENTS: usize = 1 << 10;
/// Models that one batch may add.
const BATCH_MODELS: usize = 64;

/// How segments are coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProfileChoice {
    /// Each in the fewest bytes; the receiver must hold the base.
    #[default]
    Auto,
    /// Those of BF16, F16 and FP8 by ranks and ULP steps, others as `Absolute`; the receiver must hold the base.
    Contextual,
    /// By positions and values: larger after training, but it may be applied to anything, twice.
    Absolute,
}

/// How to make a patch.
#[derive(Debug, Clone)]
pub struct EncodeOptions {
    /// How segments are coded.
    pub profile: ProfileChoice,
    /// What to cast before comparing.
    pub cast: Option<Cast>,
    /// Written to the header; at most 256 bytes.
    pub run_id: String,
    /// The base's number.
    pub base_step: Step,
    /// The target's number; greater.
    pub target_step: Step,
    /// Of the fingerprints.
    pub seed: u64,
    /// Largest segment, in cells; rounded down to the block and held between 1,024 and 2^22.
    pub segment_cells: u32,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        Self {
            profile: ProfileChoice::default(),
            cast: None,
            run_id: String::new(),
            base_step: Step(0),
            target_step: Step(1),
            seed: 0,
            segment_cells: MAX_SEGMENT_CELLS,
        }
    }
}

/// A finished patch: its header, and a payload that may be larger than memory should hold.
#[derive(Debug)]
pub struct Patch {
    header: Header,
    header_bytes: Vec<u8>,
    payload: tempfile::SpooledTempFile,
}

impl Patch {
    pub(crate) fn new(header: Header, header_bytes: Vec<u8>, payload: tempfile::SpooledTempFile) -> Self {
        Self { header, header_bytes, payload }
    }

    /// Everything but the payload.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Writes the whole patch.
    ///
    /// # Errors
    /// Those of `out`, and of reading the temporary file.
    pub fn write_to(&mut self, out: &mut impl Write) -> std::io::Result<()> {
        out.write_all(&self.header_bytes)?;
        self.payload.seek(SeekFrom::Start(0))?;
        let mut buffer = vec![0; 1 << 18];
        loop {
            match self.payload.read(&mut buffer)? {
                0 => return Ok(()),
                read => out.write_all(&buffer[..read])?,
            }
        }
    }

    /// The whole patch in memory.
    ///
    /// # Errors
    /// Those of reading the temporary file.
    pub fn into_bytes(mut self) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes)?;
        Ok(bytes)
    }
}

/// Makes the patch from `base` to `target`. Runs in the current rayon thread pool.
///
/// # Errors
/// [`Error::Tensors`] if the two do not hold the same tensors, [`Error::Usage`] if steps or run id do not fit, [`Error::Interrupted`].
pub fn encode(
    base: &Checkpoint,
    target: &Checkpoint,
    options: &EncodeOptions,
    progress: &dyn Progress,
) -> Result<Patch, Error> {
    check_options(options)?;
    let pair = Pair::new(base, target, options.cast)?;
    let tensors = pair.tensors();
    check_tensors(base, &tensors)?;
    let segments = cut(&tensors, options.segment_cells);
    progress.start(base.tensor_bytes());
    let mut header = Header {
        run_id: options.run_id.clone(),
        base_step: Some(options.base_step),
        target_step: options.target_step,
        seed: options.seed,
        tensors,
        ..Header::default()
    };
    header.segments = segments.iter().map(|pieces| largest_segment(pieces, Profile::Absolute)).collect();
    header.check(&Limits::default()).map_err(|error| too_large(base, &error))?;
    let mut payload = spool();
    let scanner = Scanner { pair: &pair, options, tensors: &header.tensors, scratch: Mutex::default(), progress };
    let mut coded = Vec::new();
    let mut models = Vec::new();
    let mut batch = Vec::new();
    for wave in segments.chunks(2 * rayon::current_num_threads()) {
        batch.par_extend(wave.par_iter().map(|pieces| scanner.scan(pieces)));
        if progress.is_cancelled() {
            return Err(Error::Interrupted);
        }
        while let Some(length) = full_batch(&batch) {
            let rest = batch.split_off(length);
            coded.extend(code(std::mem::replace(&mut batch, rest), &mut models, &mut payload)?);
        }
    }
    coded.extend(code(batch, &mut models, &mut payload)?);
    header.segments = coded;
    header.models = models;
    let header_bytes = header.write(&Zstd::default()).map_err(|error| too_large(base, &error))?;
    Ok(Patch::new(header, header_bytes, payload))
}

/// Where payload is kept until the header is known.
pub(crate) fn spool() -> tempfile::SpooledTempFile {
    tempfile::SpooledTempFile::new(SPOOL_BYTES)
}

/// How many of the segments make a batch, if they are enough. Depends on their order only, so that the number of threads does not show.
fn full_batch(scanned: &[Scanned]) -> Option<usize> {
    let mut changes = 0;
    let full = |(index, scanned): (usize, &Scanned)| {
        changes += scanned.changes.len();
        changes >= BATCH_CHANGES || index + 1 >= BATCH_SEGMENTS
    };
    scanned.iter().enumerate().position(full).map(|index| index + 1)
}

/// What a patch cannot hold is found before work begins.
pub(crate) fn check_tensors(base: &Checkpoint, tensors: &[Tensor]) -> Result<(), Error> {
    for tensor in tensors {
        let what = match tensor.check() {
            Ok(()) => continue,
            Err(Damage::Text) => {
                format!("its name has {} bytes, and a patch holds {MAX_NAME_BYTES}", tensor.name.len())
            }
            Err(Damage::Number) => format!("it has {} dimensions, and a patch holds {MAX_RANK}", tensor.shape.len()),
            Err(_) => format!("its shape {:?} has more cells than can be counted", tensor.shape),
        };
        const SHOWN: usize = 100;
        let name: String = tensor.name.escape_debug().take(SHOWN).collect();
        return Err(Error::checkpoint(base.path(), format!("tensor {name}: {what}")));
    }
    Ok(())
}

/// A segment of which the header takes as much as it ever can.
pub(crate) fn largest_segment(pieces: &[Piece], profile: Profile) -> Segment {
    let cells = pieces.iter().map(|piece| piece.cells).sum();
    let bytes = Limits::default().segment_bytes as u32;
    Segment { profile, changes: cells, bytes, ..Segment::unchanged(cells, Fingerprint::ZERO) }
}

pub(crate) fn too_large(base: &Checkpoint, error: &pulse_format::Error) -> Error {
    Error::checkpoint(base.path(), format!("too large for one patch: {error}"))
}

fn check_options(options: &EncodeOptions) -> Result<(), Error> {
    if options.target_step <= options.base_step {
        let (base, target) = (options.base_step, options.target_step);
        return Err(Error::Usage(format!("the target step ({target}) must be greater than the base step ({base})")));
    }
    check_run_id(&options.run_id)
}

pub(crate) fn check_run_id(run_id: &str) -> Result<(), Error> {
    if run_id.len() > pulse_format::layout::MAX_RUN_ID_BYTES {
        return Err(Error::Usage("the run id is longer than 256 bytes".into()));
    }
    Ok(())
}

/// The first half of encoding: what changed in each segment.
struct Scanner<'a> {
    pair: &'a Pair<'a>,
    options: &'a EncodeOptions,
    tensors: &'a [Tensor],
    /// Memory that is free for another segment's changes.
    scratch: Mutex<Vec<Scratch>>,
    progress: &'a dyn Progress,
}

/// What a scan fills.
#[derive(Default)]
struct Scratch {
    changes: ContextualChanges,
    by_region: Vec<u32>,
}

struct Scanned {
    cells: u32,
    sums: Fingerprints,
    changes: Changes,
}

enum Changes {
    /// Yet to be coded, by a model.
    Contextual(Box<(Tokens, Histogram)>),
    ByPosition(ByPosition),
}

impl Changes {
    fn len(&self) -> usize {
        match self {
            Self::Contextual(changes) => changes.0.len(),
            Self::ByPosition(coded) => coded.changes as usize,
        }
    }
}

impl Scanner<'_> {
    fn scan(&self, pieces: &[Piece]) -> Scanned {
        let dtype = self.tensors[pieces[0].tensor].dtype;
        let sides: Vec<PieceCells<'_>> = pieces.iter().map(|piece| self.pair.cells(*piece)).collect();
        let pairs: Vec<_> = sides.iter().map(PieceCells::pair).collect();
        let (sums, changes) = match dtype.float_format() {
            Some(format) if self.options.profile != ProfileChoice::Absolute => self.scan_contextual(format, &pairs),
            _ => self.scan_by_position(dtype.cell_bytes(), &pairs),
        };
        let cells = pieces.iter().map(|piece| piece.cells).sum::<u32>();
        self.progress.advance(u64::from(cells) * dtype.cell_bytes() as u64);
        Scanned { cells, sums, changes }
    }

    fn scan_contextual(&self, format: FloatFormat, pairs: &[PiecePair<'_>]) -> (Fingerprints, Changes) {
        let mut scratch = self.scratch().pop().unwrap_or_default();
        let Scratch { changes, by_region } = &mut scratch;
        let sums = with_float_cell!(format, C => scan_contextual::<C>(pairs, self.options.seed, changes, by_region));
        let mut histogram = Histogram::default();
        let tokens = tokens(changes, &Zstd::PROBE);
        histogram.count(&tokens);
        let by_position = match self.options.profile {
            ProfileChoice::Auto => beats_contextual(&tokens, &histogram, pairs, by_region, format.cell_bytes()),
            ProfileChoice::Contextual | ProfileChoice::Absolute => None,
        };
        self.scratch().push(scratch);
        let contextual = || Changes::Contextual(Box::new((tokens, histogram)));
        (sums, by_position.map_or_else(contextual, Changes::ByPosition))
    }

    fn scan_by_position(&self, cell_bytes: usize, pairs: &[PiecePair<'_>]) -> (Fingerprints, Changes) {
        let mut changes = PositionalChanges::default();
        let sums = scan_absolute(pairs, self.options.seed, cell_bytes, &mut changes);
        let coded = match self.options.profile {
            ProfileChoice::Auto => ByPosition::smaller(changes, pairs, cell_bytes, &Zstd::PLANES),
            ProfileChoice::Contextual | ProfileChoice::Absolute => ByPosition::absolute(&changes, cell_bytes),
        };
        (sums, Changes::ByPosition(coded))
    }

    fn scratch(&self) -> MutexGuard<'_, Vec<Scratch>> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The second half: models for the batch, then each segment's payload, appended to `payload` in order.
fn code(batch: Vec<Scanned>, models: &mut Vec<ContextModel>, payload: &mut impl Write) -> Result<Vec<Segment>, Error> {
    let histograms: Vec<&Histogram> = batch.iter().filter_map(Scanned::histogram).collect();
    // Readers take so many, and each batch needs one.
    let room = (Limits::default().models as usize).saturating_sub(models.len());
    if room == 0 && !histograms.is_empty() {
        return Err(Error::Usage("there are too many changes for one patch: publish an anchor (`pulse pack`)".into()));
    }
    let assignment = models::assign(&histograms, BATCH_MODELS.min(room.div_ceil(2)));
    let first_model = models.len();
    models.extend(assignment.models);
    let mut of_segment = assignment.of_segment.iter().map(|model| first_model + model);
    let name = |scanned: Scanned| {
        let model = scanned.histogram().and_then(|_| of_segment.next());
        (scanned, model)
    };
    let named: Vec<_> = batch.into_iter().map(name).collect();
    let coded =
        named.into_par_iter().map(|(scanned, model)| scanned.code(model, models)).collect::<Result<Vec<_>, _>>()?;
    let mut segments = Vec::new();
    for (segment, bytes) in coded {
        payload.write_all(&bytes).map_err(Error::io("cannot write the temporary file in", &std::env::temp_dir()))?;
        segments.push(segment);
    }
    Ok(segments)
}

impl Scanned {
    /// Of the tokens, if there are any.
    fn histogram(&self) -> Option<&Histogram> {
        match &self.changes {
            Changes::Contextual(changes) if !changes.0.is_empty() => Some(&changes.1),
            _ => None,
        }
    }

    fn code(self, model: Option<usize>, models: &[ContextModel]) -> Result<(Segment, Vec<u8>), Error> {
        let segment = Segment::unchanged(self.cells, self.sums.base);
        let changes = self.changes.len() as u32;
        let (profile, payload) = match (self.changes, model) {
            (Changes::Contextual(changes), Some(model)) => {
                let mut payload = Vec::new();
                encode_contextual(&changes.0, &models[model], &mut payload)?;
                (Profile::Contextual { model }, payload)
            }
            (Changes::ByPosition(coded), _) if changes > 0 => (coded.profile, coded.payload),
            _ => return Ok((segment, Vec::new())),
        };
        Ok((segment.with_payload(profile, changes, self.sums.target, &payload)?, payload))
    }
}
