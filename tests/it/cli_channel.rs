//! The verbs of a channel as their users run them.

use crate::support::binary::{Run, fails, json, pulse, read, run};
use crate::support::cells::Pair;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A folder with checkpoints `base.safetensors` and `target.safetensors`, a key, and the publisher's state beside it.
struct Channel {
    folder: tempfile::TempDir,
}

impl Channel {
    fn new() -> Self {
        let channel = Self { folder: tempfile::tempdir().unwrap() };
        Pair::mixed().write(channel.at());
        channel.succeed(&["key", "generate", "key"]);
        channel
    }

    fn at(&self) -> &Path {
        self.folder.path()
    }

    fn succeed(&self, arguments: &[&str]) -> String {
        let Run { code, stdout, stderr } = run(self.at(), arguments);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "pulse {arguments:?}: {stdout}");
        stdout
    }

    fn publish(&self, checkpoint: &str, step: &str) -> String {
        self.succeed(&["publish", "run", checkpoint, "--step", step, "--key", "key", "--state", "state", "--run", "r"])
    }

    /// A follower that goes on, and its lines.
    fn follow(&self, more: &[&str]) -> (Child, impl Iterator<Item = serde_json::Value> + use<>) {
        let mut child = Command::new(pulse())
            .args(["follow", "run", "model", "--key", "key.pub", "--interval", "0.1", "--json"])
            .args(more)
            .current_dir(self.at())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines.map(|line| json(&line.unwrap())))
    }
}

const PUBLISHER: [&str; 4] = ["--key", "key", "--state", "state"];

#[test]
fn a_follower_stays_current_and_tells() {
    let channel = Channel::new();
    let (mut follower, mut events) = channel.follow(&["--exec", "cat model/model.safetensors > told-$PULSE_STEP"]);
    let first = events.next().unwrap();
    assert_eq!((&first["event"], &first["code"]), (&"error".into(), &"no_head".into()));
    channel.publish("base.safetensors", "5");
    let joined = events.next().unwrap();
    assert_eq!((joined["from"].as_u64(), joined["step"].as_u64()), (None, Some(5)));
    channel.publish("target.safetensors", "6");
    let updated = events.next().unwrap();
    assert_eq!((updated["from"].as_u64(), updated["step"].as_u64()), (Some(5), Some(6)));
    for number in ["bytes", "objects", "fetch_seconds", "apply_seconds", "lag_seconds"] {
        assert!(updated[number].is_number(), "{updated}");
    }
    // A second follower is told.
    let second = run(channel.at(), &["follow", "run", "model", "--once"]);
    assert_eq!((second.code, second.stderr.contains("is in use by another pulse")), (Some(1), true));
    Command::new("kill").args(["-TERM", &follower.id().to_string()]).status().unwrap();
    assert_eq!(events.next().unwrap()["event"], "ended");
    assert!(follower.wait().unwrap().success());
    let cells = |name: &str| {
        let file = read(channel.at(), name);
        let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        file[8 + length..].to_vec()
    };
    assert_eq!(cells("model/model.safetensors").len(), cells("target.safetensors").len());
    channel.succeed(&[
        "verify",
        &object(&channel, "6.patch"),
        "--base",
        "base.safetensors",
        "--target",
        "model/model.safetensors",
    ]);
    assert_eq!(read(channel.at(), "told-6"), read(channel.at(), "model/model.safetensors"));
    assert_ne!(read(channel.at(), "told-5"), read(channel.at(), "told-6"));
}

fn object(channel: &Channel, beginning: &str) -> String {
    let names = crate::support::listing(&channel.at().join("run/objects"));
    format!("run/objects/{}", names.iter().find(|name| name.starts_with(beginning)).unwrap())
}

#[test]
fn a_hook_that_fails_is_run_again() {
    let channel = Channel::new();
    channel.publish("base.safetensors", "5");
    let follow = ["follow", "run", "model", "--key", "key.pub", "--once"];
    let hook = ["--exec", "echo once >> tries; test $(wc -l < tries) -gt 1"];
    let failed = run(channel.at(), &[&follow[..], &hook].concat());
    assert_eq!(failed.code, Some(1));
    assert!(failed.stderr.contains("cannot run --exec"), "{}", failed.stderr);
    channel.succeed(&[&follow[..], &hook].concat());
    channel.succeed(&[&follow[..], &hook].concat());
    assert_eq!(read(channel.at(), "tries"), b"once\nonce\n", "and once it has succeeded, no more");
}

#[test]
fn status_says_what_the_channel_holds() {
    let channel = Channel::new();
    channel.publish("base.safetensors", "5");
    channel.publish("target.safetensors", "6");
    let status = json(&channel.succeed(&["status", "run", "--key", "key.pub", "--json"]));
    assert_eq!((status["step"].as_u64(), status["sequence"].as_u64(), &status["run"]), (Some(6), Some(1), &"r".into()));
    assert_eq!((&status["verified"], &status["expired"]), (&true.into(), &false.into()));
    let steps = status["steps"].as_array().unwrap();
    assert_eq!(steps[0]["cost_from_there"], steps[1]["patch_bytes"]);
    assert_eq!(steps[1]["cost_from_there"], 0);
    let unverified = json(&channel.succeed(&["status", "run", "--json"]));
    assert_eq!(unverified["verified"], false);
    let key = "0".repeat(64);
    fails(channel.at(), &["status", "run", "--key", &key], 6, "never handed over", "key");
    fails(channel.at(), &["status", "elsewhere"], 1, "has no head.json", "no_head");
    fails(channel.at(), &["status", "ftp://host/run"], 2, "none of the places", "usage");
}

#[test]
fn keys_change_heads_are_renewed_and_runs_go_back() {
    let channel = Channel::new();
    channel.publish("base.safetensors", "5");
    channel.succeed(&["follow", "run", "model", "--key", "key.pub", "--once"]);
    fails(channel.at(), &["key", "generate", "key"], 1, "cannot create the key", "io");
    let new = channel.succeed(&["key", "generate", "new"]);
    assert_eq!(channel.succeed(&["key", "public", "new"]), new);
    channel.succeed(&[&["key", "rotate", "run", "--to", "new"][..], &PUBLISHER].concat());
    fails(channel.at(), &[&["renew", "run"][..], &PUBLISHER].concat(), 2, "the channel's key is", "usage");
    channel.succeed(&["renew", "run", "--key", "new", "--state", "state", "--expires", "48"]);
    let publisher = ["--key", "new", "--state", "state"];
    let publish = |checkpoint: &str, step: &str, more: &[&str]| {
        run(channel.at(), &[&["publish", "run", checkpoint, "--step", step][..], &publisher, more].concat())
    };
    assert_eq!(publish("target.safetensors", "7", &[]).code, Some(0));
    // The receiver that pinned the old key goes on by itself.
    assert!(channel.succeed(&["follow", "run", "model", "--once"]).starts_with("step 5 -> 7"));
    let back = publish("base.safetensors", "6", &[]);
    assert!(back.stderr.contains("the run went back from step 7 to 6"), "{}", back.stderr);
    assert_eq!(publish("base.safetensors", "6", &["--rewind"]).code, Some(0));
    assert!(channel.succeed(&["follow", "run", "model", "--once"]).starts_with("step 7 -> 6"));
    let collect = [&["gc", "run", "--keep", "1", "--grace", "0", "--json"][..], &publisher].concat();
    let planned = json(&channel.succeed(&[&collect[..], &["--dry-run"]].concat()));
    let collected = json(&channel.succeed(&collect));
    assert_eq!(planned["deleted"], collected["deleted"]);
    assert!(!collected["deleted"].as_array().unwrap().is_empty());
}

#[test]
fn a_trainers_folder_is_published_as_it_is_written() {
    let channel = Channel::new();
    let file = |step: &str| channel.at().join("out").join(step).join("model.safetensors");
    let write = |step: &str, bytes: &[u8]| {
        std::fs::create_dir_all(file(step).parent().unwrap()).unwrap();
        std::fs::write(file(step), bytes).unwrap();
    };
    let (base, target) = (read(channel.at(), "base.safetensors"), read(channel.at(), "target.safetensors"));
    let watch =
        [&["watch", "out", "run", "--run", "r", "--once", "--interval", "0.05", "--json"][..], &PUBLISHER].concat();
    let steps = || -> Vec<u64> {
        let text = channel.succeed(&watch);
        let events = text.lines().map(json).filter(|event| event["event"] == "published");
        events.map(|event| event["step"].as_u64().unwrap()).collect()
    };
    // By number, not by name; half a file, an empty folder and somebody's temporary folder are none.
    write("checkpoint-1000", &target);
    write("checkpoint-900", &base);
    write("checkpoint-10000", &target[..target.len() - 1]);
    write("tmp-checkpoint-950", &base);
    std::fs::create_dir(channel.at().join("out/checkpoint-970")).unwrap();
    assert_eq!(steps(), [900, 1000]);
    std::fs::remove_dir_all(channel.at().join("out/checkpoint-900")).unwrap();
    write("checkpoint-10000", &base);
    assert_eq!(steps(), [10_000]);
    assert_eq!(steps(), [0; 0]);
    // The run begins again from a lower step: neither ignored nor published on top.
    std::thread::sleep(std::time::Duration::from_secs(2));
    write("checkpoint-1000", &base);
    let back = run(channel.at(), &watch);
    assert_eq!(back.code, Some(1));
    assert!(back.stdout.contains("the run went back from step 10000 to 1000"), "{}", back.stdout);
}
