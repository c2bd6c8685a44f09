//! The container image that `deploy/image/build` makes, unpacked and run as the DaemonSet runs it:
//! alone in its root, which is read-only, and with one capability.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::{Value, json};
use sliceproxy::lab::Netns;
use sliceproxy_tests::agent::{binary, printed};
use sliceproxy_tests::nft::Nft;
use sliceproxy_tests::{require_root, wait_for};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(20);

/// `CAP_SYS_CHROOT` is for chroot itself; a container runtime enters the root otherwise.
const CONTAINER: &str = r#"
set -e
root=$1 run=$2
shift 2
ip link set lo up
mount --bind "$root" "$root"
mkdir -p "$root/proc"
mount --rbind /proc "$root/proc"
mount --bind "$run" "$root/run/sliceproxy"
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs --bounding-set=-all,+net_admin,+sys_chroot \
    --inh-caps=-all chroot "$root" /sliceproxy "$@"
"#;

fn command(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", printed(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn untar(archive: &Path, folder: &Path) {
    let (archive, folder) = (archive.to_str().unwrap(), folder.to_str().unwrap());
    command("tar", &["--extract", "--file", archive, "--directory", folder]);
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Where the content of a descriptor is, in a layout; it is what the descriptor says.
fn blob(layout: &Path, descriptor: &Value) -> PathBuf {
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let path = layout.join("blobs/sha256").join(digest);
    assert_eq!(fs::metadata(&path).unwrap().len(), descriptor["size"].as_u64().unwrap());
    let sum = command("sha256sum", &[path.to_str().unwrap()]);
    assert!(sum.starts_with(digest), "{sum} instead of {digest}");
    path
}

/// A root made of the image's layer, and the folder that is its `/run/sliceproxy`.
struct Image {
    config: Value,
    root: TempDir,
    run: TempDir,
}

impl Image {
    fn unpack() -> Self {
        require_root();
        let folder = std::env::var_os("SLICEPROXY_IMAGE").expect("run this with `tests/run image`");
        let mut files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let archive = files.find(|path| path.to_string_lossy().ends_with(".oci.tar")).unwrap();
        let layout = tempfile::tempdir().unwrap();
        untar(&archive, layout.path());
        let layout = layout.path();
        assert_eq!(json_of(&layout.join("oci-layout")), json!({"imageLayoutVersion": "1.0.0"}));
        let index = json_of(&layout.join("index.json"));
        let manifest = json_of(&blob(layout, &index["manifests"][0]));
        let config = json_of(&blob(layout, &manifest["config"]));
        let layers = manifest["layers"].as_array().unwrap();
        assert_eq!(layers.len(), 1);
        assert_eq!(config["rootfs"]["diff_ids"], json!([layers[0]["digest"]]));
        let root = tempfile::tempdir().unwrap();
        untar(&blob(layout, &layers[0]), root.path());
        Self { config, root, run: tempfile::tempdir().unwrap() }
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.root.path().join(name), content).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", CONTAINER, "sh"])
            .args([self.root.path(), self.run.path()])
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    /// What a command prints.
    fn print(&self, netns: &Netns, arguments: &[&str]) -> String {
        let output = netns.run(|| self.command(arguments).output()).unwrap().unwrap();
        assert!(output.status.success(), "{}", printed(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn start(&self, netns: &Netns, arguments: &[&str]) -> Running {
        let mut command = self.command(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        Running(netns.run(|| command.spawn()).unwrap().unwrap())
    }
}

/// A process that ends with its test.
struct Running(Child);

impl Running {
    /// Waits for a line of its log.
    fn wait_for_line(&mut self, part: &'static str) {
        let lines = BufReader::new(self.0.stderr.take().unwrap()).lines();
        let (sender, found) = channel();
        std::thread::spawn(move || {
            // Reads to the end, so that the process never waits for its reader.
            for line in lines.map_while(Result::ok) {
                if line.contains(part) {
                    let _ = sender.send(());
                }
            }
        });
        found.recv_timeout(LIMIT).unwrap_or_else(|error| panic!("no line with {part}: {error}"));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn shop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/shop.yaml")
}

#[test]
#[ignore = "an image: `tests/run image` builds it first"]
fn it_renders_what_the_binary_outside_renders() {
    let image = Image::unpack();
    assert_eq!(image.config["config"]["Entrypoint"], json!(["/sliceproxy"]));
    let netns = Netns::new().unwrap();
    let version = image.print(&netns, &["--version"]);
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    fs::copy(shop(), image.root.path().join("shop.yaml")).unwrap();
    let arguments = ["render", "--node-name", "node-a1", "--manifests"];
    let inside = image.print(&netns, &[&arguments[..], &["/shop.yaml"]].concat());
    let program = binary().unwrap();
    let shop = shop();
    let outside =
        command(program.to_str().unwrap(), &[&arguments[..], &[shop.to_str().unwrap()]].concat());
    assert!(inside.contains("table ip sliceproxy"), "{inside}");
    assert_eq!(inside, outside);
}

#[test]
#[ignore = "an image: `tests/run image` builds it first"]
fn one_capability_and_a_read_only_root_are_enough() {
    let image = Image::unpack();
    let netns = Netns::new().unwrap();
    fs::copy(shop(), image.root.path().join("shop.yaml")).unwrap();
    let source = ["--manifests", "/shop.yaml", "--node-name", "node-a1"];
    let mut agent = image.start(&netns, &[&["run"][..], &source].concat());
    agent.wait_for_line("in step with the cluster");
    let listed = Nft::system().run(&netns, &["list", "tables"]).unwrap();
    assert_eq!(listed, "table ip sliceproxy\ntable ip6 sliceproxy\n");
    // As `kubectl exec` would, over the socket on the host.
    let services = image.print(&netns, &["dump", "services"]);
    assert!(services.contains("shop/web"), "{services}");
    image.print(&netns, &["diff"]);
}

/// Answers each question for an IPv4 address with 127.0.0.1, others with nothing.
fn answer_names(socket: &UdpSocket) -> std::io::Result<()> {
    let mut packet = [0; 512];
    loop {
        let (length, client) = socket.recv_from(&mut packet)?;
        // Of all sections only the question is kept: it ends with a type and a class.
        let question = packet[12..length].iter().position(|byte| *byte == 0).unwrap() + 12 + 5;
        let mut answer = packet[..question].to_vec();
        let is_v4 = answer[question - 4..question - 2] == [0, 1];
        answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_v4), 0, 0, 0, 0]);
        if is_v4 {
            // The name of the question, type A, class IN, for a minute, 4 bytes.
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
        }
        socket.send_to(&answer, client)?;
    }
}

/// A static C library is known for not finding names.
#[test]
#[ignore = "an image: `tests/run image` builds it first"]
fn it_finds_an_api_server_by_name() {
    let image = Image::unpack();
    let netns = Netns::new().unwrap();
    let authority = rcgen::generate_simple_self_signed(["api.test".to_owned()]).unwrap();
    image.put("ca.crt", authority.cert.pem());
    image.put("etc/resolv.conf", "nameserver 127.0.0.1\n");
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {
            "server": "https://api.test:6443", "certificate-authority": "/ca.crt"}}],
        "users": [{"name": "test", "user": {"token": "test"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    });
    image.put("kubeconfig", kubeconfig.to_string());
    let names = netns.run(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 53))).unwrap().unwrap();
    std::thread::spawn(move || answer_names(&names));
    let server = netns.run(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 6443))).unwrap().unwrap();
    server.set_nonblocking(true).unwrap();
    let _agent = image.start(&netns, &["run", "--kubeconfig", "/kubeconfig", "--node-name", "a"]);
    wait_for("the agent to call the API server", LIMIT, || server.accept().ok()).unwrap();
}
