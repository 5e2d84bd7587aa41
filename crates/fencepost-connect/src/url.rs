//! From a URL to what the driver connects with. Nothing of a URL is ever shown but user, hosts and database.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use fencepost_core::{Error, Result};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

const FORM: &str = "the form is postgres://USER:PASSWORD@HOST:PORT/DATABASE, with percent signs for special characters in the \
    password; after a `?` may stand sslmode=disable, prefer or require, sslrootcert=FILE, and what the driver knows";

/// A URL that was understood.
#[derive(Clone)]
pub(crate) struct Target {
    /// What the driver connects with, one a host, in the order in which they are tried.
    pub(crate) hosts: Vec<Config>,
    /// How long it may take to connect to one address.
    pub(crate) connect_timeout: Duration,
    pub(crate) has_password: bool,
    /// How the server's certificate is judged.
    pub(crate) trust: Trust,
    /// Whether a pooler is known to stand there that gives each connection a session of its own.
    pub(crate) has_session_pooler: bool,
    /// Where it is, without secrets.
    pub(crate) location: String,
}

/// How the server's certificate is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trust {
    /// There is no encryption.
    Plain,
    /// It is not: encryption is used where the server has it, and whoever stands in between could turn it off anyway.
    Anybody,
    /// By the authorities that everybody knows.
    Known,
    /// By those in the file.
    File(PathBuf),
}

impl Target {
    pub(crate) fn parse(url: &str, connect_timeout: Duration) -> Result<Self> {
        // SECURITY: neither the URL nor the driver's complaint is shown: both may hold parts of a password.
        let refuse = |why: &str| {
            Error::invalid(format!("cannot use the url of the store: {why}"), FORM).with("argument", "store")
        };
        let Some(rest) = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://")) else {
            return Err(refuse("it does not begin with `postgres://`"));
        };
        // SECURITY: the driver ends a password at its first `@` or `/`, and takes the rest for a host or a database, which are shown.
        let place = rest.split('?').next().unwrap_or(rest);
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        if authority.matches('@').count() > 1 || path.contains('@') {
            return Err(refuse("it has an `@` too many: in a password one is written `%40`, and a slash `%2F`"));
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut kept, mut mode, mut root) = (Vec::new(), None, None);
        let (mut names_session, mut has_session_pooler) = (false, false);
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value.to_owned()),
                Some(("sslrootcert", value)) => {
                    root = Some(decode(value).ok_or_else(|| refuse("`sslrootcert` cannot be read"))?)
                }
                Some(("pooler", "session")) => has_session_pooler = true,
                Some(("pooler", _)) => {
                    return Err(refuse("its pooler is not `session`, which is all that can be said of one"));
                }
                Some((name, _)) => {
                    names_session |= name == "target_session_attrs";
                    kept.push(parameter);
                }
                None => return Err(refuse("a parameter has no value")),
            }
        }
        let plain = format!("{base}?{}", kept.join("&"));
        let mut config: Config = plain.trim_end_matches('?').parse().map_err(|_| refuse("it cannot be read"))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(refuse("it names no host"));
        }
        if !names_session {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        if config.get_application_name().is_none() {
            config.application_name("fencepost");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(connect_timeout);
        }
        let (mode, trust) = match (mode.as_deref(), root) {
            (Some("disable"), _) => (SslMode::Disable, Trust::Plain),
            (None | Some("prefer"), None) => (SslMode::Prefer, Trust::Anybody),
            (Some("prefer"), Some(root)) => (SslMode::Prefer, Trust::File(root.into())),
            (Some("require" | "verify-ca" | "verify-full"), None) => (SslMode::Require, Trust::Known),
            // Who names an authority wants its word: without encryption nobody would ask for it.
            (None | Some("require" | "verify-ca" | "verify-full"), Some(root)) => {
                (SslMode::Require, Trust::File(root.into()))
            }
            _ => return Err(refuse("its sslmode is none of disable, prefer and require")),
        };
        config.ssl_mode(mode);
        let has_password = config.get_password().is_some();
        if !has_password {
            // The driver's own complaint that there is none has no code; the server's has.
            config.password("");
        }
        let count = config.get_hosts().len().max(config.get_hostaddrs().len());
        let fits = |length: usize| length <= 1 || length == count;
        if !fits(config.get_ports().len())
            || (!config.get_hosts().is_empty() && !config.get_hostaddrs().is_empty())
                && config.get_hosts().len() != config.get_hostaddrs().len()
        {
            return Err(refuse("it has not as many ports or addresses as hosts"));
        }
        let hosts = (0..count).map(|index| of_one_host(&config, index)).collect();
        let connect_timeout = config.get_connect_timeout().copied().unwrap_or(connect_timeout);
        Ok(Self { hosts, connect_timeout, has_password, trust, has_session_pooler, location: location(&config) })
    }
}

/// The same for one of the hosts.
fn of_one_host(config: &Config, index: usize) -> Config {
    let mut one = Config::new();
    match config.get_hosts().get(index) {
        Some(Host::Tcp(name)) => {
            one.host(name);
        }
        #[cfg(unix)]
        Some(Host::Unix(folder)) => {
            one.host_path(folder);
        }
        None => {}
    }
    if let Some(address) = config.get_hostaddrs().get(index) {
        one.hostaddr(*address);
    }
    if let Some(port) = config.get_ports().get(index).or(config.get_ports().first()) {
        one.port(*port);
    }
    if let Some(user) = config.get_user() {
        one.user(user);
    }
    if let Some(password) = config.get_password() {
        one.password(password);
    }
    if let Some(database) = config.get_dbname() {
        one.dbname(database);
    }
    if let Some(options) = config.get_options() {
        one.options(options);
    }
    if let Some(name) = config.get_application_name() {
        one.application_name(name);
    }
    if let Some(bound) = config.get_connect_timeout() {
        one.connect_timeout(*bound);
    }
    if let Some(bound) = config.get_tcp_user_timeout() {
        one.tcp_user_timeout(*bound);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .target_session_attrs(config.get_target_session_attrs())
        .channel_binding(config.get_channel_binding())
        .load_balance_hosts(config.get_load_balance_hosts());
    one
}

fn location(config: &Config) -> String {
    let mut shown = String::from("postgres://");
    if let Some(user) = config.get_user() {
        let _ = write!(shown, "{user}@");
    }
    let ports = config.get_ports();
    for (index, host) in config.get_hosts().iter().enumerate() {
        let separator = if index == 0 { "" } else { "," };
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        let _ = match host {
            Host::Tcp(name) => write!(shown, "{separator}{name}:{port}"),
            #[cfg(unix)]
            Host::Unix(folder) => write!(shown, "{separator}{}:{port}", folder.display()),
        };
    }
    if config.get_hosts().is_empty() {
        let addresses: Vec<String> = config.get_hostaddrs().iter().map(ToString::to_string).collect();
        shown.push_str(&addresses.join(","));
    }
    let _ = write!(shown, "/{}", config.get_dbname().or(config.get_user()).unwrap_or_default());
    // A name may hold control characters, which must not reach a terminal.
    shown.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Undoes percent signs.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                bytes.push(u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?);
                tail
            }
            (b'%', _) => return None,
            _ => {
                bytes.push(*first);
                tail
            }
        };
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use fencepost_core::Kind;

    use super::*;

    fn parse(url: &str) -> Result<Target> {
        Target::parse(url, Duration::from_secs(5))
    }

    #[test]
    fn the_location_has_no_secrets() {
        assert_eq!(parse("postgres://app:s3cr@t@db1/shop").err().map(|error| error.kind()), Some(Kind::InvalidInput));
        let target = parse("postgres://app:s3cr%40t@db1:5433,db2:5434/shop?sslmode=require").unwrap();
        assert_eq!(target.location, "postgres://app@db1:5433,db2:5434/shop");
        assert_eq!(target.trust, Trust::Known);
        let shown = |host: &Config| (host.get_hosts().to_vec(), host.get_ports().to_vec());
        let hosts: Vec<_> = target.hosts.iter().map(shown).collect();
        let host = |name: &str, port| (vec![Host::Tcp(name.to_owned())], vec![port]);
        assert_eq!(hosts, [host("db1", 5433), host("db2", 5434)]);
        assert!(target.hosts.iter().all(|host| host.get_target_session_attrs() == TargetSessionAttrs::ReadWrite
            && host.get_password() == Some(b"s3cr@t")));
    }

    /// What a URL says of connections is said of each host.
    #[test]
    fn every_host_is_connected_to_as_the_url_says() {
        let said = "options=-csearch_path%3Da&application_name=shop&connect_timeout=3&tcp_user_timeout=4&keepalives=0&\
            keepalives_idle=5&keepalives_interval=6&keepalives_retries=7&target_session_attrs=any&channel_binding=disable&\
            load_balance_hosts=random&sslnegotiation=direct";
        let url = |hosts: &str| format!("postgres://app:secret@{hosts}/shop?{said}");
        let one: Config = url("db2:5434").parse().unwrap();
        let target = parse(&format!("{}&sslmode=require", url("db1,db2:5434"))).unwrap();
        assert_eq!(target.connect_timeout, Duration::from_secs(3));
        let mut expected = one.clone();
        expected.ssl_mode(SslMode::Require);
        assert_eq!(target.hosts[1], expected);
    }

    #[test]
    fn a_url_that_is_not_understood_is_refused_without_showing_it() {
        for url in [
            "mysql://u:hidden@h/d",
            "postgres://u:hid?den@h/d",
            "postgres://u:hid@den@h/d",
            "postgres://u:hidden@den@h:5432,h2/d?sslmode=require",
            "postgres://u:5/hid@den@h/d",
            "postgresql://u:5/hidden@h/d",
            "postgres://u:hidden@h:port/d",
            "postgres:///d?sslmode=hidden",
        ] {
            let Err(error) = parse(url) else { panic!("{url} was taken") };
            assert_eq!(error.kind(), Kind::InvalidInput, "{url}");
            let shown = format!("{error:?}");
            assert!(!shown.contains("hid") && !shown.contains("den"), "{shown}");
        }
    }

    #[test]
    fn a_pooler_in_session_mode_is_said_and_no_other() {
        let has_pooler =
            |query: &str| parse(&format!("postgres://u@h/d{query}")).map(|target| target.has_session_pooler);
        assert!(!has_pooler("").unwrap());
        assert!(has_pooler("?pooler=session&connect_timeout=3").unwrap());
        assert_eq!(has_pooler("?pooler=transaction").unwrap_err().kind(), Kind::InvalidInput);
    }

    #[test]
    fn modes_of_encryption_say_who_is_trusted() {
        let trust = |query: &str| {
            let target = parse(&format!("postgres://u@h/d{query}")).unwrap();
            (target.hosts[0].get_ssl_mode(), target.trust)
        };
        let file = || Trust::File("/a b.pem".into());
        assert_eq!(trust(""), (SslMode::Prefer, Trust::Anybody));
        assert_eq!(trust("?sslmode=disable"), (SslMode::Disable, Trust::Plain));
        assert_eq!(trust("?sslmode=verify-full"), (SslMode::Require, Trust::Known));
        assert_eq!(trust("?sslrootcert=/a%20b.pem&connect_timeout=3"), (SslMode::Require, file()));
        assert_eq!(trust("?sslrootcert=/a%20b.pem&sslmode=prefer"), (SslMode::Prefer, file()));
    }
}
