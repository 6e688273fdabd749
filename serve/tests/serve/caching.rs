//! What caches and other origins are told, and what is not served.

use crate::support::Served;

#[test]
fn immutable_things_are_kept_and_the_head_is_asked_for() {
    let served = Served::new();
    served.publish(0);
    let (path, bytes) = served.object();
    let object = served.get(&path, &[]);
    assert_eq!((object.status, &object.body), (200, &bytes));
    assert_eq!(object.header("cache-control"), Some("public, max-age=31536000, immutable"));
    let head = served.get("/head.json", &[]);
    assert_eq!(head.body, std::fs::read(served.path("head.json")).unwrap());
    assert_eq!(head.header("cache-control"), Some("no-cache"));
    assert_eq!(head.header("pulse-events"), Some("events"));
    assert!(head.header("date").is_some());
    for path in [path.as_str(), "/head.json"] {
        let tag = served.get(path, &[]).header("etag").unwrap().to_string();
        let known = served.get(path, &[("If-None-Match", &format!("\"x\", {tag}"))]);
        assert_eq!((known.status, known.body.len()), (304, 0), "{path}");
        assert_eq!(known.header("etag"), Some(tag.as_str()));
        assert_eq!(served.get(path, &[("If-None-Match", "\"x\"")]).status, 200);
    }
    let tag = head.header("etag").unwrap();
    served.publish(1);
    let newer = served.get("/head.json", &[("If-None-Match", tag)]);
    assert_eq!((newer.status, newer.body), (200, std::fs::read(served.path("head.json")).unwrap()));
}

#[test]
fn what_is_not_there_is_not_remembered() {
    let served = Served::new();
    let object = format!("/objects/1.patch.{}", "0".repeat(64));
    for path in ["/head.json", &object, "/", "/objects/", "/history/x.json"] {
        let answer = served.get(path, &[]);
        assert_eq!((answer.status, answer.header("cache-control")), (404, Some("no-store")), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{path}");
    }
    served.publish(0);
    assert_eq!(served.get("/head.json", &[]).status, 200);
}

#[test]
fn every_origin_is_answered_alike() {
    let served = Served::new();
    served.publish(0);
    let (path, _) = served.object();
    let cors = ["access-control-allow-origin", "access-control-expose-headers", "cross-origin-resource-policy"];
    for path in [path.as_str(), "/head.json"] {
        let (without, with) = (served.get(path, &[]), served.get(path, &[("Origin", "https://page.example")]));
        for name in cors {
            assert!(with.header(name).is_some() && with.header(name) == without.header(name), "{path} {name}");
        }
        let exposed = with.header(cors[1]).unwrap();
        for name in ["content-range", "etag", "date", "pulse-events"] {
            assert!(exposed.contains(name), "{name} in {exposed}");
        }
    }
    let asked = [
        ("Origin", "https://page.example"),
        ("Access-Control-Request-Method", "GET"),
        ("Access-Control-Request-Headers", "range"),
        ("Access-Control-Request-Private-Network", "true"),
    ];
    let preflight = served.ask("OPTIONS", &path, &asked);
    assert_eq!(preflight.status, 200);
    assert!(preflight.header("access-control-allow-headers").unwrap().contains("range"));
    assert_eq!(preflight.header("access-control-allow-private-network"), Some("true"));
}

#[cfg(unix)]
#[test]
fn nothing_but_a_channel_is_served() {
    let served = Served::new();
    served.publish(0);
    let secret = served.folder.path().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    std::fs::write(served.path(".lock"), "x").unwrap();
    std::fs::write(served.path("notes.txt"), "x").unwrap();
    std::fs::write(served.path("objects/notes.txt"), "x").unwrap();
    let link = format!("5.patch.{}", "a".repeat(64));
    std::os::unix::fs::symlink(&secret, served.path("objects").join(&link)).unwrap();
    std::fs::create_dir(served.path("objects").join(format!("6.patch.{}", "b".repeat(64)))).unwrap();
    let (object, bytes) = served.object();
    let odd = object.replace("/objects/", "/objects/0");
    for path in [
        "/.lock",
        "/notes.txt",
        "/objects/notes.txt",
        "/objects",
        "/objects/..%2fsecret",
        "/../secret",
        "/objects/../../secret",
        "/%2e%2e/secret",
        "//etc/passwd",
        "/objects/%00",
        "/history/..%2f..%2fsecret.json",
        &odd,
        &format!("/objects/{link}"),
        &format!("/objects/6.patch.{}", "b".repeat(64)),
    ] {
        let answer = served.get(path, &[]);
        assert!([400, 404].contains(&answer.status), "{path}: {}", answer.status);
        assert!(!answer.body.windows(6).any(|six| six == b"secret"), "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE"] {
        assert_eq!(served.ask(method, &object, &[]).status, 405, "{method}");
    }
    assert_eq!(served.ask("GET", &object, &[("Content-Length", "5")]).status, 413);
    // A link within the folder is somebody's way to spare a copy.
    let (name, twin) = (object.rsplit('/').next().unwrap(), format!("7.patch.{}", "c".repeat(64)));
    std::os::unix::fs::symlink(name, served.path("objects").join(&twin)).unwrap();
    assert_eq!(served.get(&format!("/objects/{twin}"), &[]).body, bytes);
    std::fs::write(served.path("head.json"), vec![b'x'; 20_000]).unwrap();
    assert_eq!(served.get("/head.json", &[]).status, 500);
}
