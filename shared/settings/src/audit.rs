//! From the raw settings to the validated ones: how the operator's tool reads topics.

use icefall_secret::Secret;

use crate::fault::Key;
use crate::raw::RawAudit;
use crate::settings::{AuditSettings, KafkaSignIn, PasswordMechanism};
use crate::validate::Check;

const USER: &str = "give username and password, or leave sign_in out";

impl Check<'_> {
    pub(crate) fn audit(&mut self, raw: RawAudit, key: &Key) -> Option<AuditSettings> {
        let bootstrap = self.parsed(raw.bootstrap.clone(), &key.child("bootstrap"), brokers);
        let tls = raw.tls.unwrap_or(raw.sign_in.is_some());
        let sign_in = self.kafka_sign_in(raw, key)?;
        Some(AuditSettings { bootstrap, tls, sign_in })
    }

    fn kafka_sign_in(&mut self, raw: RawAudit, key: &Key) -> Option<KafkaSignIn> {
        let mechanism = match raw.sign_in.as_deref() {
            None => return self.nobody(&raw, key),
            Some("msk-iam") => {
                let region = self.region(raw.region, &key.child("region"));
                let credentials = self.credentials(raw.credentials, &key.child("credentials"));
                return Some(KafkaSignIn::MskIam(region?, credentials?));
            }
            Some("plain") => PasswordMechanism::Plain,
            Some("scram-sha-256") => PasswordMechanism::ScramSha256,
            Some("scram-sha-512") => PasswordMechanism::ScramSha512,
            Some(other) => {
                let problem = format!("{other:?} must be plain, scram-sha-256, scram-sha-512 or msk-iam");
                self.faults.add(&key.child("sign_in"), problem);
                return None;
            }
        };
        let username = self.filled(raw.username, &key.child("username"), USER);
        let password = raw.password.filter(|password: &Secret| !password.expose().is_empty());
        let password = self.required(password, &key.child("password"), USER);
        Some(KafkaSignIn::Password { mechanism, username: username?, password: password? })
    }

    /// A password that nothing is done with was meant for something.
    fn nobody(&mut self, raw: &RawAudit, key: &Key) -> Option<KafkaSignIn> {
        if raw.username.is_some() || raw.password.is_some() || raw.credentials.is_some() {
            let problem = "say how they are used: plain, scram-sha-256, scram-sha-512 or msk-iam";
            self.faults.missing(&key.child("sign_in"), problem);
            return None;
        }
        Some(KafkaSignIn::None)
    }
}

/// The brokers, each `host:port`.
fn brokers(text: String) -> Result<String, String> {
    let is_broker = |broker: &str| {
        let parts = broker.trim().rsplit_once(':');
        parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0))
    };
    if text.split(',').all(is_broker) {
        return Ok(text);
    }
    Err(format!("{text:?} must be brokers as host:port, separated by commas"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Environment, Settings, SettingsError};

    fn parse(audit: &str) -> Result<AuditSettings, SettingsError> {
        let environment = Environment::from_iter([("AWS_REGION", "eu-central-1")]);
        let text = format!(
            r#"
            pipeline = "shop"
            catalog = {{ uri = "https://catalog.example.com", warehouse = "lake" }}
            ops = {{ bucket = "icefall-ops" }}
            queue = {{ url = "https://sqs.eu-central-1.amazonaws.com/000000000000/icefall-commits" }}
            route = [{{ topic = "orders", table = "shop.orders" }}]
            {audit}"#
        );
        Settings::parse(&text, &environment).map(|settings| settings.audit)
    }

    #[test]
    fn brokers_are_reached_by_tls_as_soon_as_somebody_signs_in() {
        assert_eq!(parse("").expect("nothing is needed"), AuditSettings::default());
        let open = parse("audit.bootstrap = 'a:9092,[::1]:9093'").expect("brokers");
        assert_eq!((open.tls, open.bootstrap.as_deref()), (false, Some("a:9092,[::1]:9093")));
        let scram =
            "audit = { bootstrap = 'a:9092', sign_in = 'scram-sha-512', username = 'u', password = 'hush' }";
        let scram = parse(scram).expect("a user");
        assert!(scram.tls && !format!("{scram:?}").contains("hush"), "{scram:?}");
        let iam = parse("audit = { bootstrap = 'a:9098', sign_in = 'msk-iam' }").expect("a role");
        assert!(matches!(iam.sign_in, KafkaSignIn::MskIam(region, _) if region.as_str() == "eu-central-1"));
    }

    #[test]
    fn what_is_wrong_is_named_by_its_key() {
        let cases = [
            ("audit.bootstrap = 'broker'", "audit.bootstrap"),
            ("audit.bootstrap = 'broker:0'", "audit.bootstrap"),
            ("audit.sign_in = 'kerberos'", "audit.sign_in"),
            ("audit = { sign_in = 'plain', username = 'u' }", "audit.password"),
            ("audit.password = 'hush'", "audit.sign_in"),
        ];
        for (text, key) in cases {
            let error = parse(text).expect_err(text);
            assert_eq!(error.faults().first().map(|fault| fault.key.as_str()), Some(key), "{error}");
            assert!(!error.to_string().contains("hush"), "{error}");
        }
    }
}
