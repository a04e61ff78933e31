//! Relays between longhaul's datagrams and this machine's own TCP, over a TUN device. Needs Linux and root
//! privileges.
//!
//! ```text
//! # A longhaul client talks to a kernel's server (here: socat), across 2 % of loss:
//! tun_shim --address 10.77.0.1/24 --peer 10.77.0.1:9000 --listen 127.0.0.1:9000 --loss 0.02
//! socat TCP-LISTEN:9000,bind=10.77.0.1 OPEN:received,creat
//!
//! # A kernel's client talks to a longhaul server, which listens on 127.0.0.1:7000:
//! tun_shim --address 10.77.0.1/24 --forward 127.0.0.1:7000
//! socat OPEN:file TCP:10.77.0.2:7000
//! ```

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("tun_shim: TUN devices are Linux's");
    std::process::exit(1);
}

#[cfg(target_os = "linux")]
#[tokio::main]
async fn main() -> std::process::ExitCode {
    linux::run().await
}

#[cfg(target_os = "linux")]
mod linux {
    use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
    use std::process::ExitCode;

    use anyhow::{Context, Result};
    use clap::Parser;
    use longhaul_examples::shim::{Impairment, Routes, Shim};
    use longhaul_netns::{NetNs, Tun};

    /// Relay between longhaul's datagrams and this machine's own TCP, over a TUN device.
    #[derive(Debug, Parser)]
    #[command(name = "tun_shim", version)]
    struct Args {
        /// Name of the TUN device; `%d` stands for the first free number
        #[arg(long, value_name = "NAME", default_value = "longhaul%d")]
        tun: String,
        /// Put the device into this network namespace, as created by `ip netns add`; the UDP sockets stay in the
        /// present one
        #[arg(long, value_name = "NAME")]
        netns: Option<String>,
        /// The kernel's address on the device, with its prefix length; all other addresses of the network are behind
        /// the relay
        #[arg(long, value_name = "ADDR/BITS", default_value = "10.77.0.1/24", value_parser = parse_network)]
        address: (Ipv4Addr, u8),
        /// The kernel's listener to which longhaul clients are relayed
        #[arg(long, value_name = "ADDR", default_value = "10.77.0.1:9000")]
        peer: SocketAddr,
        /// The UDP address to which longhaul clients connect
        #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9000")]
        listen: SocketAddr,
        /// The longhaul listener for kernel clients that connect to any address behind the relay
        #[arg(long, value_name = "ADDR")]
        forward: Option<SocketAddr>,
        /// Probability that a packet is dropped, in each direction
        #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = parse_share)]
        loss: f64,
        /// Probability that a packet is held back for some milliseconds, in each direction
        #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = parse_share)]
        reorder: f64,
        /// Seed of the random drops and reordering
        #[arg(long, default_value_t = 1)]
        seed: u64,
    }

    fn parse_network(text: &str) -> Result<(Ipv4Addr, u8), String> {
        let parsed = text.split_once('/').and_then(|(address, bits)| Some((address.parse().ok()?, bits.parse().ok()?)));
        parsed.filter(|(_, bits)| *bits <= 30).ok_or("expected an IPv4 network of at most 30 bits, 10.77.0.1/24".into())
    }

    fn parse_share(text: &str) -> Result<f64, String> {
        let parsed = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
        parsed.ok_or("expected a number from 0 to 1".into())
    }

    fn neighbour(address: Ipv4Addr) -> Ipv4Addr {
        let number = u32::from(address);
        // In a network with a prefix of at most 30 bits, all addresses 4k + 1 and 4k + 2 are host addresses.
        Ipv4Addr::from(if number % 4 == 1 { number.wrapping_add(1) } else { number / 4 * 4 + 1 })
    }

    pub(super) async fn run() -> ExitCode {
        match join(Args::parse()).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("tun_shim: {error:#}");
                ExitCode::FAILURE
            }
        }
    }

    async fn join(args: Args) -> Result<()> {
        let (address, bits) = args.address;
        let open = || -> std::io::Result<Tun> {
            let tun = Tun::open(&args.tun)?;
            tun.link().set_address(address, bits)?;
            tun.link().set_up()?;
            Ok(tun)
        };
        let tun = match &args.netns {
            Some(name) => {
                let namespace = NetNs::open(name).with_context(|| format!("no network namespace {name}"))?;
                namespace.run(open).with_context(|| format!("cannot enter the network namespace {name}"))?
            }
            None => open(),
        };
        let tun = tun.context("cannot create a TUN device (needs root)")?;
        let name = tun.link().name().to_owned();
        let door = UdpSocket::bind(args.listen).with_context(|| format!("cannot listen on {}", args.listen))?;
        let stranger = neighbour(address);
        let routes = Routes { kernel: args.peer, stranger: stranger.into(), server: args.forward };
        let impairment = Impairment { loss: args.loss, reorder: args.reorder, seed: args.seed };
        let mut shim = Shim::start(tun, door, routes, impairment)?;
        println!("{name}: {address}/{bits}");
        println!("longhaul clients: connect to {}, the kernel sees {stranger} connect to {}", args.listen, args.peer);
        if let Some(server) = args.forward {
            println!("kernel clients: connect to {stranger}, any port, to reach {server}");
        }
        let result = tokio::select! {
            result = shim.failed() => result.context("the relay failed"),
            interrupted = tokio::signal::ctrl_c() => interrupted.context("cannot wait for a signal"),
        };
        println!("{:?}", shim.stats());
        result
    }
}
