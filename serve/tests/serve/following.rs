//! A follower over HTTP.

use crate::support::{Served, key, safetensors, weights};
use pulse_channel::store::{FollowOptions, Follower};
use pulse_encoder::Silent;
use std::time::Duration;

#[test]
fn a_follower_joins_goes_on_and_resumes() {
    let served = Served::new();
    let folder = served.folder.path().join("followed");
    let open = || Follower::open(&served.url(), key().public(), &folder, FollowOptions::default()).unwrap();
    assert_eq!(open().update(&Silent).unwrap_err().code(), "no_head");
    served.publish(0);
    // A download that was cut: a beginning is here.
    let (path, bytes) = served.object();
    let hash = path.rsplit('.').next().unwrap();
    std::fs::write(folder.join(".pulse/parts").join(hash), &bytes[..bytes.len() / 3]).unwrap();
    let joined = open().update(&Silent).unwrap().unwrap();
    assert_eq!((joined.step, joined.bytes as usize), (0, bytes.len() - bytes.len() / 3), "only the rest is fetched");
    let mut follower = open();
    for step in 1..5 {
        served.publish(step);
        assert_eq!(follower.update(&Silent).unwrap().unwrap().step, step);
        assert_eq!(follower.update(&Silent).unwrap(), None);
        let file = safetensors(step);
        assert_eq!(weights(follower.file()), file[file.len() - 80_000..]);
    }
}

#[test]
fn a_follower_is_told_and_need_not_ask() {
    let served = Served::new();
    served.publish(0);
    let folder = served.folder.path().join("followed");
    let mut follower = Follower::open(&served.url(), key().public(), &folder, FollowOptions::default()).unwrap();
    for step in 0..4 {
        assert_eq!(follower.update(&Silent).unwrap().unwrap().step, step);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                served.publish(step + 1);
            });
            // An hour, if nobody tells.
            follower.wait(Duration::from_secs(3600), &Silent);
        });
    }
}
