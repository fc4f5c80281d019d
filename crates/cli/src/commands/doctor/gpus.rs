//! GPUs: the driver's report of each, and the kernel's report of its connection to the processor.

use std::fs;
use std::path::Path;

use api::reply::Finding;
use daemon::doctor::Level;
use offload::devices::{self, Info};
use offload::fault::Fault;

use super::finding;

/// One for each GPU, or for the lack of them.
pub fn findings() -> Vec<Finding> {
    of(devices::gpus(), Path::new("/sys"))
}

fn of(gpus: Result<Vec<Info>, Fault>, sys: &Path) -> Vec<Finding> {
    let remedy = "install NVIDIA's driver       (`rutter lookup --device cuda` needs it)";
    match gpus {
        Ok(all) if !all.is_empty() => all.iter().map(|gpu| found(gpu, sys)).collect(),
        Ok(_) | Err(Fault::NoDriver) if !is_built_in(sys) => {
            vec![finding("gpu", Level::Good, "none".into(), "")]
        }
        Ok(_) => {
            let found = "the CUDA driver does not find the NVIDIA GPU on the bus".into();
            vec![finding("gpu", Level::Better, found, remedy)]
        }
        Err(fault) => vec![finding("gpu", Level::Better, fault.to_string(), remedy)],
    }
}

/// Name, memory, bus, driver.
fn found(gpu: &Info, sys: &Path) -> Finding {
    let device = sys.join("bus/pci/devices").join(&gpu.bus);
    let read = |path: &Path| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let of_bus = |name| read(&device.join(name));
    let link = match (of_bus("current_link_speed"), of_bus("current_link_width")) {
        (Some(speed), Some(width)) => format!(", {speed} x {width} lanes"),
        _ => String::new(),
    };
    let driver = read(&sys.join("module/nvidia/version"));
    let driver = driver.map(|version| format!(", driver {version}")).unwrap_or_default();
    let Info { name, memory, bus, capability, cuda, .. } = gpu;
    let found = format!(
        "{name}, {} GiB, compute capability {}.{}; {bus}{link}; CUDA {}.{}{driver}",
        memory >> 30,
        capability.0,
        capability.1,
        cuda.0,
        cuda.1
    );
    let what = format!("gpu {}", gpu.number);
    if *capability < OLDEST {
        let remedy = "use a GPU of compute capability 7.5 or later";
        return finding(&what, Level::Better, found, remedy);
    }
    finding(&what, Level::Good, found, "")
}

/// True where a graphics processor of NVIDIA's is on the bus.
fn is_built_in(sys: &Path) -> bool {
    let Ok(devices) = fs::read_dir(sys.join("bus/pci/devices")) else { return false };
    devices.flatten().any(|device| {
        let starts = |name, with| {
            fs::read_to_string(device.path().join(name)).is_ok_and(|text| text.starts_with(with))
        };
        starts("vendor", "0x10de") && starts("class", "0x03")
    })
}

/// The compute capability that the kernels are compiled for.
const OLDEST: (i32, i32) = (7, 5);

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A folder of its own with these files.
    fn sys(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let sys = std::env::temp_dir().join(format!("rutter-gpus-{}-{name}", std::process::id()));
        fs::create_dir_all(&sys).unwrap();
        for (path, text) in files {
            fs::create_dir_all(sys.join(path).parent().unwrap()).unwrap();
            fs::write(sys.join(path), text).unwrap();
        }
        sys
    }

    #[test]
    fn a_gpu_with_its_driver_memory_and_bus() {
        let bus = "bus/pci/devices/0000:01:00.0";
        let link = [format!("{bus}/current_link_speed"), format!("{bus}/current_link_width")];
        let files = [
            (&*link[0], "16.0 GT/s PCIe\n"),
            (&*link[1], "8\n"),
            ("module/nvidia/version", "535.1"),
        ];
        let sys = sys("there", &files);
        let gpu = Info {
            number: 0,
            name: "A GPU".into(),
            capability: (7, 5),
            memory: 16 << 30,
            bus: "0000:01:00.0".into(),
            cuda: (12, 2),
        };
        let old = Info { number: 1, capability: (7, 0), bus: "elsewhere".into(), ..gpu.clone() };
        let found = of(Ok(vec![gpu, old]), &sys);
        let text = "A GPU, 16 GiB, compute capability 7.5; 0000:01:00.0, 16.0 GT/s PCIe x 8 lanes; \
                    CUDA 12.2, driver 535.1";
        assert_eq!((&*found[0].what, &*found[0].level, &*found[0].found), ("gpu 0", "ok", text));
        assert_eq!((&*found[1].what, &*found[1].level), ("gpu 1", "better"));
        fs::remove_dir_all(sys).unwrap();
    }

    #[test]
    fn none_is_well_unless_one_is_built_in() {
        let none = sys(
            "none",
            &[("bus/pci/devices/0/vendor", "0x8086"), ("bus/pci/devices/0/class", "0x03")],
        );
        let one = sys(
            "one",
            &[("bus/pci/devices/0/vendor", "0x10de"), ("bus/pci/devices/0/class", "0x0302")],
        );
        let level = |gpus, sys: &PathBuf| of(gpus, sys)[0].level.clone();
        assert_eq!(level(Err(Fault::NoDriver), &none), "ok");
        assert_eq!(level(Ok(vec![]), &none), "ok");
        assert_eq!(level(Err(Fault::NoDriver), &one), "better");
        assert_eq!(level(Ok(vec![]), &one), "better");
        let broken = Fault::Driver { why: "unknown".into() };
        assert_eq!(level(Err(broken), &none), "better");
        fs::remove_dir_all(none).unwrap();
        fs::remove_dir_all(one).unwrap();
    }
}
