//! Changes are noticed without being asked for.

use std::fs;
use std::io::Write;
use std::time::Duration;

use tempfile::tempdir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;

/// Far longer than it takes, and shorter than the clock that makes up for lost notices.
const SOON: Duration = Duration::from_secs(8);

fn telling() -> Telling {
    Telling::new(20, std::sync::Arc::default())
}

struct Following {
    events: mpsc::Receiver<Event>,
    task: JoinHandle<Result<(), ManifestError>>,
}

impl Following {
    async fn start(path: &Path) -> Self {
        let (sender, events) = mpsc::channel(100);
        let task = tokio::spawn(follow(path.to_owned(), node("n1"), sender, telling()));
        let mut following = Self { events, task };
        for _ in 0..5 {
            following.next().await;
        }
        following
    }

    async fn next(&mut self) -> String {
        let event = timeout(SOON, self.events.recv()).await.expect("an event in time").unwrap();
        words(&[event]).remove(0)
    }

    async fn stop(self) {
        drop(self.events);
        timeout(SOON, self.task).await.expect("an end in time").unwrap().unwrap();
    }
}

#[tokio::test]
async fn files_of_a_folder() {
    let folder = tempdir().unwrap();
    let path = folder.path();
    let mut following = Following::start(path).await;
    write(path, "a.yaml", shop("a", &["10.0.0.1"]));
    assert_eq!(following.next().await, "slice shop/a-1 of 1");
    assert_eq!(following.next().await, "service shop/a");
    // As editors do it.
    write(path, ".a.yaml.swp", shop("a", &[]));
    fs::rename(path.join(".a.yaml.swp"), path.join("a.yaml")).unwrap();
    assert_eq!(following.next().await, "slice shop/a-1 of 0");
    fs::remove_file(path.join("a.yaml")).unwrap();
    assert_eq!(following.next().await, "no slice shop/a-1");
    assert_eq!(following.next().await, "no service shop/a");
    following.stop().await;
}

#[tokio::test]
async fn a_file_that_is_replaced_and_a_folder_that_is() {
    let above = tempdir().unwrap();
    let folder = above.path().join("manifests");
    fs::create_dir(&folder).unwrap();
    write(&folder, "a.yaml", shop("a", &["10.0.0.1"]));
    let mut file = Following::start(&folder.join("a.yaml")).await;
    let mut all = Following::start(&folder).await;
    write(&folder, "new", shop("a", &[]));
    fs::rename(folder.join("new"), folder.join("a.yaml")).unwrap();
    assert_eq!(file.next().await, "slice shop/a-1 of 0");
    assert_eq!(all.next().await, "slice shop/a-1 of 0");
    file.stop().await;

    let other = above.path().join("other");
    fs::create_dir(&other).unwrap();
    write(&other, "a.yaml", shop("a", &["10.0.0.1", "10.0.0.2"]));
    fs::rename(&folder, above.path().join("old")).unwrap();
    fs::rename(&other, &folder).unwrap();
    assert_eq!(all.next().await, "slice shop/a-1 of 2");
    write(&folder, "a.yaml", shop("a", &["10.0.0.1"]));
    assert_eq!(all.next().await, "slice shop/a-1 of 1");
    all.stop().await;
}

#[tokio::test]
async fn a_file_counts_once_its_writer_has_closed_it() {
    let folder = tempdir().unwrap();
    let path = folder.path();
    write(path, "a.yaml", shop("a", &[]) + "---\n" + &shop("b", &[]));
    let mut following = Following::start(path).await;
    let mut writer = fs::File::create(path.join("a.yaml")).unwrap();
    writer.write_all((shop("a", &[]) + "---\n").as_bytes()).unwrap();
    // What is finished does not wait, and shows that there was a look meanwhile.
    write(path, ".new", shop("c", &[]));
    fs::rename(path.join(".new"), path.join("c.yaml")).unwrap();
    assert_eq!(following.next().await, "slice shop/c-1 of 0");
    assert_eq!(following.next().await, "service shop/c");
    writer.write_all(shop("b", &["10.0.0.1"]).as_bytes()).unwrap();
    drop(writer);
    assert_eq!(following.next().await, "slice shop/b-1 of 1");
    following.stop().await;
}

#[tokio::test]
async fn a_path_that_is_not_there() {
    let (sender, _events) = mpsc::channel(1);
    let missing = follow("/nonexistent/manifests".into(), node("n1"), sender, telling()).await;
    assert!(missing.unwrap_err().to_string().contains("/nonexistent/manifests: cannot be read"));
}
