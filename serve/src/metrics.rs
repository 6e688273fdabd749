//! What Prometheus reads.

use crate::watched::Watched;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Answered {
    /// `head`, `object`, `page`, `events` or `other`.
    pub(crate) kind: &'static str,
    pub(crate) status: u16,
}

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) requests: Family<Answered, Counter>,
    pub(crate) sent: Counter,
    pub(crate) connections: Gauge,
    pub(crate) streams: Gauge,
    sequence: Gauge,
    step: Gauge,
    created: Gauge,
    expires: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("pulse_serve");
        let (requests, sent) = (Family::default(), Counter::default());
        let gauges: [Gauge; 6] = Default::default();
        registry.register("requests", "Requests answered", Family::clone(&requests));
        registry.register("sent_bytes", "Bytes of bodies sent", sent.clone());
        let named = [
            ("connections", "Open connections"),
            ("streams", "Open streams of events"),
            ("head_sequence", "Number of the head"),
            ("step", "The newest step"),
            ("head_created_seconds", "When the head was made, in seconds since 1970"),
            ("head_expires_seconds", "When the head expires, in seconds since 1970"),
        ];
        for ((name, help), gauge) in named.into_iter().zip(&gauges) {
            registry.register(name, help, gauge.clone());
        }
        let [connections, streams, sequence, step, created, expires] = gauges;
        Self { registry, requests, sent, connections, streams, sequence, step, created, expires }
    }
}

impl Metrics {
    /// In Prometheus's text format.
    pub(crate) fn text(&self, head: Option<&Watched>) -> String {
        if let Some(head) = head {
            let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            self.sequence.set(number(head.sequence));
            self.step.set(number(head.step));
            self.created.set(number(head.created));
            self.expires.set(number(head.expires));
        }
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}
