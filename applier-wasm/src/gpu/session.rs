//! A session over GPU buffers: where tensors are, and what can be asked of them between patches.

use super::layout::{Element, Layout, Located, locate};
use super::plan::{self, PlannedSegment};
use super::port::{Command, Port};
use super::receiver::GpuReceiver;
use super::results::{self, Results};
use super::scratch::Need;
use super::side::check_exceptions;
use crate::error::Error;
use crate::options::Options;
use pulse_format::{Fingerprint, Salt, Tensor};

/// A session over the port `P`.
pub type Session<P> = crate::Session<GpuReceiver<P>>;

impl<P: Port> Session<P> {
    /// A session without tensors.
    pub fn new(port: P, options: Options) -> Self {
        Self::over(GpuReceiver::new(port), options)
    }

    /// The port.
    pub fn port(&self) -> &P {
        &self.receiver.memory.port
    }

    /// Says where a tensor is, of any element but [`Element::F16`].
    ///
    /// # Errors
    /// [`Error::Binding`] if the buffer cannot hold it so, kernels could not read it so on this device, or it shares elements with
    /// another tensor; [`Error::Poisoned`].
    pub fn bind(&mut self, tensor: Tensor, buffer: &P::Buffer, layout: Layout) -> Result<(), Error> {
        if layout.element == Element::F16 {
            let problem = "f16 alone does not tell its cells: bind_f16 takes the exceptions".into();
            return Err(Error::Binding { tensor: tensor.name, problem });
        }
        let located = self.locate(&tensor, buffer, layout)?;
        self.bound.bind(tensor, located)
    }

    /// Says where a tensor of BF16 cells is that the engine holds as f16, as [`half::convert`](super::half::convert) gives them,
    /// and which cells f16 does not hold exactly: index within the tensor and BF16, ascending.
    ///
    /// The receiver keeps these, and those that patches bring, in a table of its own on the device.
    ///
    /// # Errors
    /// As [`Session::bind`]; those of the device; [`Error::Limit`] if the table does not fit one binding.
    pub fn bind_f16(
        &mut self,
        tensor: Tensor,
        buffer: &P::Buffer,
        layout: Layout,
        exceptions: &[(u32, u16)],
    ) -> Result<(), Error> {
        let located = self.locate(&tensor, buffer, Layout { element: Element::F16, ..layout })?;
        let cells = tensor.cells().map_or(0, |cells| cells.get());
        let checked = check_exceptions(exceptions, cells);
        checked.map_err(|problem| Error::Binding { tensor: tensor.name.clone(), problem })?;
        let memory = &mut self.receiver.memory;
        let located = located.with_side(memory.sides.len());
        memory.add_side(exceptions, cells)?;
        let bound = self.bound.bind(tensor, located);
        if bound.is_err() {
            memory.drop_last_side();
        }
        bound
    }

    fn locate(&self, tensor: &Tensor, buffer: &P::Buffer, layout: Layout) -> Result<Located<P::Buffer>, Error> {
        self.check_sound()?;
        let located = locate(tensor, buffer, layout, self.port())?;
        match self.bound.iter().find(|(other, at)| other.name != tensor.name && at.overlaps(&located)) {
            Some((other, _)) => {
                Err(Error::Binding { tensor: tensor.name.clone(), problem: Error::overlap(&other.name) })
            }
            None => Ok(located),
        }
    }

    /// The cells of a tensor that its f16 does not hold exactly, as [`Session::bind_f16`] takes them, read back from the device.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no tensor of that name is bound as f16; those of the device.
    pub async fn exceptions(&self, tensor: &str) -> Result<Vec<(u32, u16)>, Error> {
        self.check_sound()?;
        let found = self.bound.iter().find(|(bound, _)| bound.name == tensor);
        let side = found.and_then(|(_, located)| located.side());
        let none = || Error::Misuse { what: format!("no tensor {tensor} is bound as f16") };
        self.receiver.memory.exceptions(side.ok_or_else(none)?).await
    }

    /// The fingerprint of all bound tensors under a fresh seed, taken now: what proves to a verifier what is held.
    ///
    /// Tensors count in the order of a patch's table, from 0.
    ///
    /// # Errors
    /// Those of the device.
    pub async fn fingerprint(&mut self, seed: u64) -> Result<Fingerprint, Error> {
        /// Windows whose results are read together.
        const AT_ONCE: usize = 1 << 10;
        self.check_sound()?;
        let memory = &mut self.receiver.memory;
        let limits = memory.port.limits();
        let mut segments = Vec::new();
        for (number, (tensor, located)) in (0..).zip(self.bound.iter()) {
            let cells = tensor.cells().map_or(0, |cells| cells.get());
            let windows = located.all_windows(Salt::new(seed, number, 0), cells, &limits)?;
            segments.extend(windows.into_iter().map(|window| PlannedSegment::of(vec![window])));
        }
        let mut sum = Fingerprint::ZERO;
        for segments in segments.chunks(AT_ONCE) {
            let need = segments.iter().fold(Need::default(), |need, segment| need.plus(segment.need(0)));
            let words = results::result_words(segments.len());
            let scratch = memory.scratch(need, 4 * words)?;
            let batch = plan::batch(segments, 0, &scratch, &scratch.changes);
            memory.write(&scratch.params, &batch.params)?;
            let surveys = batch.segments.into_iter().flat_map(|segment| segment.survey);
            let commands: Vec<_> = [Command::Clear(scratch.sums.clone())].into_iter().chain(surveys).collect();
            memory.submit(&commands)?;
            let results = memory.read_words(&scratch.sums, words).await?;
            sum += (0..segments.len()).map(|number| Results::of(&results, number).base()).sum();
        }
        Ok(sum)
    }
}
