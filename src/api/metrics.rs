//! `GET /metrics`: what a monitor watches, as Prometheus reads it. Few figures, each of them counted, none guessed.

use std::fmt::{self, Write};

use hyper::{Response, StatusCode, header};
use schemars::SchemaGenerator;

use super::endpoint::{self, Anybody, Call, Custom, CustomAnswer};
use super::error::{ApiError, Problem, Result};
use super::openapi::shape::Answered;
use crate::model::Status;
use crate::model::histogram::{Counts, STEPS};
use crate::notifications;
use crate::store::census;
use crate::webhooks;

/// Text that Prometheus reads.
pub(super) struct Figures;

impl CustomAnswer for Figures {
    fn describe(_: &mut SchemaGenerator) -> Vec<Answered> {
        vec![Answered::text(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8")]
    }
}

/// Every figure. On this machine only, unless the configuration says otherwise: to others there is nothing here.
pub(super) async fn show(call: Call<(), (), (), Anybody>) -> Result<Custom<Figures>> {
    let app = call.app;
    if !call.head.is_local && !app.settings.metrics_are_public {
        let message = "Metrics are told to this machine only; `metrics.public` in the configuration changes that.";
        return Err(ApiError::new(Problem::NotFound, message));
    }
    let census = app.store.read(census::read)?;
    let artifacts = app.artifacts.clone();
    // Asking a disk may wait for it.
    let disk = tokio::task::spawn_blocking(move || artifacts.free_space()).await.map_err(ApiError::internal)?;

    let mut text = Text::default();
    text.family("cookhouse_info", "gauge", "Which version runs.");
    text.figure("cookhouse_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    text.family("cookhouse_builds", "gauge", "Builds on record, by status.");
    for status in Status::ALL {
        text.figure("cookhouse_builds", &[("status", status.as_str())], census.of(status) as f64);
    }
    text.family("cookhouse_queue_length", "gauge", "Builds that wait for an executor slot.");
    text.figure("cookhouse_queue_length", &[], census.of(Status::Pending) as f64);
    text.family("cookhouse_builds_running", "gauge", "Builds that are being built.");
    text.figure("cookhouse_builds_running", &[], census.of(Status::Running) as f64);
    text.family("cookhouse_artifacts", "gauge", "Artifacts that can be downloaded.");
    text.figure("cookhouse_artifacts", &[], census.artifacts as f64);
    text.family("cookhouse_artifact_bytes", "gauge", "What they take on disk.");
    text.figure("cookhouse_artifact_bytes", &[], census.artifact_bytes as f64);
    if let Ok(disk) = disk {
        text.family("cookhouse_disk_free_bytes", "gauge", "Free on the disk of the data directory.");
        text.figure("cookhouse_disk_free_bytes", &[], disk.free_bytes as f64);
        text.family("cookhouse_disk_size_bytes", "gauge", "Size of the disk of the data directory.");
        text.figure("cookhouse_disk_size_bytes", &[], disk.total_bytes as f64);
    }
    webhooks(&mut text, &app.webhooks.figures()?);
    notifications(&mut text, &app.notifications.figures()?);
    text.family("cookhouse_store_write_seconds", "histogram", "From asking for a change to its being durable.");
    text.histogram("cookhouse_store_write_seconds", &[], &app.store.write_durations());
    let traffic = app.traffic.counts();
    text.family("cookhouse_http_requests_total", "counter", "Requests answered since the start, by operation and status.");
    for operation in &traffic {
        for (status, count) in &operation.statuses {
            let labels = [("operation", operation.operation), ("status", &*status.to_string())];
            text.figure("cookhouse_http_requests_total", &labels, *count as f64);
        }
    }
    text.family("cookhouse_http_request_seconds", "histogram", "From a request's head to the beginning of its answer, by operation.");
    for operation in &traffic {
        text.histogram("cookhouse_http_request_seconds", &[("operation", operation.operation)], &operation.durations);
    }
    let mut response = Response::new(endpoint::full(text.0));
    let kind = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response.into())
}

fn webhooks(text: &mut Text, figures: &webhooks::Figures) {
    text.family("cookhouse_webhook_messages_waiting", "gauge", "Messages to endpoints that are still to be sent.");
    text.figure("cookhouse_webhook_messages_waiting", &[], figures.waiting as f64);
    text.family("cookhouse_webhook_oldest_waiting_seconds", "gauge", "Age of the oldest message that waits for an endpoint that is on.");
    text.figure("cookhouse_webhook_oldest_waiting_seconds", &[], figures.oldest_waiting_ms as f64 / 1000.0);
    text.family("cookhouse_webhook_endpoints", "gauge", "Endpoints: on, switched off by somebody, or disabled by the service.");
    for (state, count) in [("on", figures.on), ("off", figures.off), ("disabled", figures.disabled)] {
        text.figure("cookhouse_webhook_endpoints", &[("state", state)], count as f64);
    }
    text.family("cookhouse_webhook_tries_total", "counter", "Tries to hand a message to an endpoint since the start.");
    for (outcome, count) in [("delivered", figures.delivered), ("failed", figures.failed)] {
        text.figure("cookhouse_webhook_tries_total", &[("outcome", outcome)], count as f64);
    }
}

fn notifications(text: &mut Text, figures: &notifications::Figures) {
    text.family("cookhouse_notifications_waiting", "gauge", "Notifications that are still to be sent, or to be tried again.");
    text.figure("cookhouse_notifications_waiting", &[], figures.waiting as f64);
    text.family("cookhouse_notification_overdue_seconds", "gauge", "For how long the first of them could have been sent already.");
    text.figure("cookhouse_notification_overdue_seconds", &[], figures.overdue_ms as f64 / 1000.0);
    text.family("cookhouse_notification_tries_total", "counter", "Tries to send a notification since the start, by channel.");
    for (channel, sent, failed) in &figures.tries {
        for (outcome, count) in [("sent", *sent), ("failed", *failed)] {
            let labels = [("channel", channel.as_str()), ("outcome", outcome)];
            text.figure("cookhouse_notification_tries_total", &labels, count as f64);
        }
    }
}

/// The text format. Labels are words of our own: nothing needs to be escaped.
#[derive(Default)]
struct Text(String);

impl Text {
    fn line(&mut self, line: fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{line}");
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn figure(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        match labels.is_empty() {
            true => self.line(format_args!("{name} {value}")),
            false => self.line(format_args!("{name}{{{}}} {value}", labels.join(","))),
        }
    }

    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], counts: &Counts) {
        let ends = STEPS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (end, count) in ends.zip(counts.cumulative.iter().chain([&counts.count])) {
            let labels = [labels, &[("le", &*end)]].concat();
            self.figure(&format!("{name}_bucket"), &labels, *count as f64);
        }
        self.figure(&format!("{name}_sum"), labels, counts.sum);
        self.figure(&format!("{name}_count"), labels, counts.count as f64);
    }
}
