//! Which context models a batch of segments shares.
//!
//! A model costs a few hundred bytes in the header, so segments share one unless their statistics differ by more than
//! that: an input embedding of which few rows change, next to layers that change all over.

use pulse_format::model::{ContextModel, Histogram};

/// Estimated cost of one nonzero frequency in the packed header.
const TOKEN_BITS: f64 = 9.0;

/// The models of a batch, and for each segment the index of its own.
pub(crate) struct Assignment {
    pub(crate) models: Vec<ContextModel>,
    pub(crate) of_segment: Vec<usize>,
}

/// Groups segments whose tokens cost less to code together than apart. Makes at most `max_models`.
pub(crate) fn assign(histograms: &[&Histogram], max_models: usize) -> Assignment {
    struct Group {
        histogram: Histogram,
        bits: f64,
    }
    let mut groups: Vec<Group> = Vec::new();
    let mut of_segment = Vec::new();
    for histogram in histograms {
        let own = code_bits(histogram);
        let joined = groups.iter().enumerate().map(|(index, group)| {
            let mut merged = group.histogram.clone();
            merged.merge(histogram);
            let bits = code_bits(&merged);
            (bits - group.bits - own, bits, index, merged)
        });
        let best = joined.min_by(|a, b| a.0.total_cmp(&b.0));
        match best {
            Some((extra, bits, index, histogram)) if extra < model_bits(&histogram) || groups.len() >= max_models => {
                groups[index] = Group { histogram, bits };
                of_segment.push(index);
            }
            _ => {
                groups.push(Group { histogram: (*histogram).clone(), bits: own });
                of_segment.push(groups.len() - 1);
            }
        }
    }
    Assignment {
        models: groups.iter().map(|group| ContextModel::from_histogram(&group.histogram)).collect(),
        of_segment,
    }
}

/// The order-0 entropy of the tokens, in bits.
pub(crate) fn code_bits(histogram: &Histogram) -> f64 {
    let alphabets =
        histogram.gaps.iter().map(<[u32; _]>::as_slice).chain(histogram.steps.iter().map(<[u32; _]>::as_slice));
    alphabets.map(entropy_bits).sum()
}

/// Bits that all occurrences of a histogram cost together, each at its own probability.
pub(crate) fn entropy_bits(counts: &[u32]) -> f64 {
    let total: f64 = counts.iter().map(|count| f64::from(*count)).sum();
    counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) * (total / f64::from(*count)).log2()).sum()
}

fn model_bits(histogram: &Histogram) -> f64 {
    let tokens = histogram.gaps.as_flattened().iter().chain(histogram.steps.as_flattened());
    TOKEN_BITS * tokens.filter(|count| **count > 0).count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(gap_token: usize, count: u32) -> Histogram {
        let mut histogram = Histogram::default();
        histogram.gaps[20][gap_token] = count;
        histogram.gaps[20][gap_token + 1] = count;
        histogram.steps[20][0] = count * 2;
        histogram
    }

    #[test]
    fn like_segments_share_a_model_and_unlike_ones_do_not() {
        let (dense, sparse) = (histogram(3, 50_000), histogram(40, 50_000));
        let assignment = assign(&[&dense, &sparse, &dense, &sparse], 256);
        assert_eq!(assignment.of_segment, [0, 1, 0, 1]);
        assert_eq!(assignment.models.len(), 2);
        assert_eq!(assign(&[&dense, &sparse], 1).of_segment, [0, 0], "the cap holds");
        assert_eq!(
            assign(&[&histogram(3, 2), &histogram(40, 2)], 256).of_segment,
            [0, 0],
            "a model costs more than it saves"
        );
    }
}
