//! Publisher and follower, killed at any time: whoever comes back goes on by itself, and holds exactly some published step in between.
//!
//! `PULSE_KILLS` says how often each is killed; `cargo xtask soak` says it.

use crate::support::binary::pulse;
use pulse_channel::store::{FollowOptions, Follower, SecretKey};
use pulse_encoder::Silent;
use pulse_tests::random::Random;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CELLS: usize = 1 << 16;

fn kills() -> usize {
    std::env::var("PULSE_KILLS").map_or(200, |kills| kills.parse().unwrap())
}

/// BF16 weights of which each step changes about one in a hundred.
struct Run {
    folder: tempfile::TempDir,
    key: SecretKey,
    /// Cells by step.
    steps: Vec<Vec<u8>>,
    random: Random,
}

impl Run {
    fn new(seed: u64) -> Self {
        let (folder, key, mut random) =
            (tempfile::tempdir().unwrap(), SecretKey::generate().unwrap(), Random::new(seed));
        key.save(&folder.path().join("key")).unwrap();
        let cells = (0..CELLS).flat_map(|_| (0x3c00 + random.below(0x400) as u16).to_le_bytes()).collect();
        Self { folder, key, steps: vec![cells], random }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn newest(&self) -> usize {
        self.steps.len() - 1
    }

    /// The trainer makes a step.
    fn train(&mut self) {
        let mut cells = self.steps.last().unwrap().clone();
        for _ in 0..CELLS / 100 {
            let place = 2 * self.random.below(CELLS);
            cells[place] ^= 1;
        }
        self.steps.push(cells);
    }

    /// The newest step as the trainer writes it.
    fn write(&self) -> PathBuf {
        let path = self.path("checkpoint.safetensors");
        let header = format!(r#"{{"w":{{"dtype":"BF16","shape":[{CELLS}],"data_offsets":[0,{}]}}}}"#, 2 * CELLS);
        let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), self.steps.last().unwrap()].concat();
        std::fs::write(&path, file).unwrap();
        path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(pulse());
        command.args(arguments).current_dir(self.folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn publish(&self) -> Command {
        let step = self.newest().to_string();
        let given = [
            "--step",
            &step,
            "--run",
            "r",
            "--key",
            "key",
            "--state",
            "state",
            "--anchor-every",
            "7",
            "--threads",
            "1",
        ];
        self.command(&[&["publish", "channel", "checkpoint.safetensors"][..], &given].concat())
    }

    /// What a folder that follows holds, which has to be a published step.
    fn held(&self, folder: &str) -> Option<usize> {
        let file = std::fs::read(self.path(folder).join("model.safetensors")).ok()?;
        let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        let cells = &file[8 + header..];
        Some(self.steps.iter().position(|step| step == cells).expect("a published step, whole"))
    }

    /// Whoever follows now, holds `step` afterwards.
    fn follows(&self, folder: &str, goal: Option<usize>) -> usize {
        let channel = self.path("channel");
        let options = FollowOptions { goal: goal.map(|goal| goal as u64), ..FollowOptions::default() };
        let mut follower =
            Follower::open(channel.to_str().unwrap(), self.key.public(), &self.path(folder), options).unwrap();
        follower.update(&Silent).unwrap();
        self.held(folder).unwrap()
    }
}

/// Runs `command`, and kills it after a random part of the time that it takes; whether it was killed.
fn kill(command: &mut Command, random: &mut Random, takes: &mut Duration) -> bool {
    let began = Instant::now();
    let mut child = command.spawn().unwrap();
    let patience = takes.mul_f64(1.3 * random.below(1000) as f64 / 1000.0);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{command:?} failed, though nobody killed it");
            *takes = began.elapsed();
            return false;
        }
        if began.elapsed() >= patience {
            child.kill().unwrap();
            // It may have ended by itself meanwhile.
            return !child.wait().unwrap().success();
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_publisher_that_is_killed_goes_on() {
    let mut run = Run::new(1);
    let (mut random, mut takes) = (Random::new(2), Duration::from_millis(100));
    let (mut killed, mut seen) = (0, 0);
    while killed < kills() {
        run.write();
        while kill(&mut run.publish(), &mut random, &mut takes) {
            killed += 1;
            // What is there is a published step, never an older one than before, and always one that can be had.
            if run.path("channel/head.json").exists() {
                let held = run.follows("follower", None);
                assert!(held >= seen && held <= run.newest());
                seen = held;
            }
        }
        assert_eq!(run.follows("follower", None), run.newest());
        seen = run.newest();
        run.train();
    }
    // And from nothing.
    assert_eq!(run.follows("joiner", None), run.newest() - 1);
    assert_leftovers_are_bounded(&run.path("channel/objects"));
}

/// A killed upload leaves a temporary file at most, and those are for `gc`.
fn assert_leftovers_are_bounded(objects: &Path) {
    let names = std::fs::read_dir(objects).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    for name in names {
        assert!(name.starts_with(".pulse-") || pulse_channel::parse_object_name(&name).is_some(), "{name}");
    }
}

#[test]
fn a_follower_that_is_killed_goes_on() {
    let mut run = Run::new(3);
    for _ in 0..30 {
        run.write();
        assert!(run.publish().status().unwrap().success());
        run.train();
    }
    run.steps.pop();
    let (mut random, mut takes) = (Random::new(4), Duration::from_millis(50));
    let mut killed = 0;
    while killed < kills() {
        let goal = random.below(run.steps.len());
        let step = goal.to_string();
        let key = run.key.public().to_string();
        let follow = ["follow", "channel", "follower", "--once", "--key", &key, "--step", &step, "--threads", "1"];
        let mut before = run.held("follower");
        while kill(&mut run.command(&follow), &mut random, &mut takes) {
            killed += 1;
            let held = run.held("follower");
            assert!(held == before || held == Some(goal), "{held:?} on the way from {before:?} to {goal}");
            before = held;
        }
        assert_eq!(run.held("follower"), Some(goal));
    }
    assert_eq!(run.follows("follower", None), run.newest());
}

/// Runs `command` with files that may have `blocks` times 512 bytes: as on a disk that takes no more. Whether it went well.
#[cfg(unix)]
fn limited(command: &Command, blocks: usize) -> bool {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"trap "" XFSZ; ulimit -f $0; exec "$@""#, &blocks.to_string()]);
    shell.arg(command.get_program()).args(command.get_args()).current_dir(command.get_current_dir().unwrap());
    let output = shell.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    match output.status.code() {
        Some(0) => true,
        Some(1) if said.starts_with("pulse: ") => false,
        code => panic!("{code:?}: {said}"),
    }
}

#[cfg(unix)]
#[test]
fn a_disk_that_is_full_harms_nothing() {
    let mut run = Run::new(5);
    run.write();
    assert!(run.publish().status().unwrap().success());
    assert_eq!(run.follows("follower", None), 0);
    let key = run.key.public().to_string();
    let (mut failed, mut passed) = ([0, 0], [0, 0]);
    run.train();
    run.write();
    let (mut published, mut held) = (0, 0);
    for blocks in (0..2 * CELLS / 512 + 40).step_by(8).chain([10_000; 3]) {
        match limited(&run.publish(), blocks) {
            true => {
                published = run.newest();
                passed[0] += 1;
                run.train();
                run.write();
            }
            false => failed[0] += 1,
        }
        let follow = run.command(&["follow", "channel", "follower", "--once", "--key", &key]);
        match limited(&follow, blocks - blocks / 3) {
            true => {
                held = published;
                passed[1] += 1;
            }
            false => failed[1] += 1,
        }
        assert_eq!(run.held("follower"), Some(held));
        // Whoever has room has the newest step.
        assert_eq!(run.follows("other", None), published);
    }
    assert!(failed.iter().chain(&passed).all(|count| *count > 2), "{failed:?} failed, {passed:?} passed");
}
