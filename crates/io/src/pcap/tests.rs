use super::*;
use crate::PoolConfig;
use std::path::PathBuf;

/// A directory that goes away with its test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let path = std::env::temp_dir().join(format!("rutter-pcap-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Dir(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn write(path: &str, link_type: u16, frames: &[Vec<u8>]) {
    let mut writer = Writer::new(File::create(path).unwrap(), Style::of(path), link_type).unwrap();
    frames.iter().for_each(|frame| writer.write(frame, 1).unwrap());
}

fn read(path: &str) -> Vec<Vec<u8>> {
    let mut reader = Reader::new(File::open(path).unwrap()).unwrap();
    let mut frames = vec![];
    while let Some(frame) = reader.next_frame().unwrap() {
        frames.push(frame.data.to_vec());
    }
    frames
}

fn pool() -> Pool {
    Pool::new(&PoolConfig { packets: 100, ..PoolConfig::default() }).unwrap()
}

/// Receives everything and sends it on; the device's counters.
fn run(device: &mut Pcap) -> Counters {
    let mut ports = device.start(1).unwrap();
    ports[0].attach(0);
    while !device.finished() {
        let mut burst = Burst::new();
        let n = ports[0].receive(&mut burst, 64);
        assert_eq!(ports[0].transmit(&mut burst.pkt[..n]), n);
    }
    device.counters()
}

#[test]
fn frames_go_from_file_to_file() {
    let dir = Dir::new("copy");
    let frames: Vec<_> = (0..300).map(|i| vec![i as u8; 14 + i]).collect();
    for (input, output) in [("a.pcap", "b.pcapng"), ("c.pcapng", "d.pcap")] {
        let (input, output) = (dir.file(input), dir.file(output));
        write(&input, ETHERNET, &frames);
        let pool = pool();
        let mut device = Pcap::open("p", [2; 6], (&input, &output), false, &pool).unwrap();
        let counters = run(&mut device);
        assert_eq!((counters.rx_packets, counters.tx_packets), (300, 300));
        assert_eq!((counters.rx_bytes, counters.rx_errors), (counters.tx_bytes, 0));
        assert!(read(&output) == frames);
        assert_eq!(pool.available(), 100);
    }
}

#[test]
fn other_link_types_are_refused_by_name_unless_raw() {
    let dir = Dir::new("link");
    for name in ["a.pcap", "a.pcapng"] {
        let input = dir.file(name);
        write(&input, 101, &[vec![0x45; 40]]);
        let open = |raw| Pcap::open("p", [2; 6], (&input, ""), raw, &pool());
        let message = open(false).err().unwrap().to_string();
        assert!(message.contains("101 (raw IP)"), "{message}");
        assert_eq!(run(&mut open(true).unwrap()).rx_packets, 1);
    }
}

#[test]
fn damage_and_giants_are_counted() {
    let dir = Dir::new("damage");
    let input = dir.file("a.pcap");
    write(&input, ETHERNET, &[vec![1; 60], vec![2; 5000], vec![3; 60], vec![4; 60]]);
    let bytes = std::fs::read(&input).unwrap();
    std::fs::write(&input, &bytes[..bytes.len() - 10]).unwrap();
    let mut device = Pcap::open("p", [2; 6], (&input, ""), false, &pool()).unwrap();
    let counters = run(&mut device);
    assert_eq!((counters.rx_packets, counters.rx_errors), (2, 2));
}

#[test]
fn what_is_not_there_is_said() {
    let dir = Dir::new("missing");
    let missing = dir.file("none.pcap");
    let error = |files| Pcap::open("p", [2; 6], files, false, &pool()).err().unwrap().to_string();
    assert!(error((&missing, "")).contains("none.pcap"));
    let nowhere = dir.file("no/such/dir");
    assert!(error(("", &nowhere)).contains("create"));
    let text = dir.file("text");
    std::fs::write(&text, "hello").unwrap();
    assert!(error((&text, "")).contains("neither pcap nor pcapng"));
}

#[test]
fn what_others_planted_is_neither_followed_nor_taken() {
    let dir = Dir::new("planted");
    let (victim, link) = (dir.file("victim"), dir.file("link"));
    std::fs::write(&victim, "kept").unwrap();
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    std::fs::hard_link(&victim, dir.file("second")).unwrap();
    for planted in ["link", "second"] {
        let refused = create(dir.file(planted)).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied, "{refused}");
    }
    let pool = pool();
    assert!(Pcap::open("p", [0; 6], ("", &link), false, &pool).is_err());
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
    std::fs::remove_file(dir.file("second")).unwrap();
    assert_eq!(create(&victim).unwrap().metadata().unwrap().len(), 0);
    assert!(create("/dev/null").is_ok());
    assert!(create("/dev/stdout").is_ok(), "what the shell calls a descriptor");
    if std::os::unix::fs::chown(&victim, Some(65534), None).is_ok() {
        assert!(create(&victim).unwrap_err().to_string().contains("user 65534"));
    }
}
