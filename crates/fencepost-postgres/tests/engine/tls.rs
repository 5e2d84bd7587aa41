//! Encryption: who is taken for the server under each mode.

use fencepost_core::Kind;
use fencepost_postgres::PostgresStore;
use fencepost_test_support::{DEFAULT_MAJOR, PgServer, PrivateServer, TestDatabase, skip_or_fail};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::stage::{installed, options, until};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for a server of that name, and its key, in PEM.
    fn certify(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new([name.to_owned()]).unwrap();
        (parameters.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

/// Has the server encrypt. It writes the files itself, as they have to be its own.
async fn encrypt(server: &PrivateServer, (certificate, key): (String, String)) {
    let admin = server.connect("postgres").await.unwrap();
    for (file, pem) in [("server.crt", certificate), ("server.key", key)] {
        let lines = pem.trim_end();
        let write =
            format!("copy (select unnest(string_to_array('{lines}', e'\\n'))) to program 'umask 077; cat > {file}'");
        admin.batch_execute(&write).await.unwrap();
    }
    server.set("ssl", "on").await.unwrap();
    let shown = async || admin.query_one("show ssl", &[]).await.unwrap().get::<_, String>(0);
    until("the server encrypts", async || shown().await == "on").await;
}

async fn is_encrypted(database: &TestDatabase) -> bool {
    let of_store = "select bool_and(s.ssl) from pg_stat_ssl s join pg_stat_activity a using (pid) \
        where a.application_name = 'fencepost' and a.datname = current_database()";
    database.connect().await.unwrap().query_one(of_store, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn each_mode_trusts_whom_it_says() {
    let Some(server) = skip_or_fail(PgServer::private(DEFAULT_MAJOR).await) else { return };
    let (ours, other) = (Authority::new(), Authority::new());
    encrypt(&server, ours.certify("127.0.0.1")).await;
    let database = server.database().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, authority: &Authority| {
        let path = folder.path().join(name);
        std::fs::write(&path, authority.0.pem()).unwrap();
        path.display().to_string()
    };
    let (ours, other) = (file("ours.pem", &ours), file("other.pem", &other));
    PostgresStore::open(&format!("{}?sslmode=disable", database.url()), options().create(true)).await.unwrap();

    let open = async |query: String| PostgresStore::open(&format!("{}?{query}", database.url()), options()).await;
    for (query, encrypted) in [
        ("sslmode=disable".to_owned(), false),
        ("sslmode=prefer".to_owned(), true),
        ("application_name=fencepost".to_owned(), true),
        (format!("sslrootcert={ours}"), true),
        (format!("sslmode=require&sslrootcert={ours}"), true),
        (format!("sslmode=verify-full&sslrootcert={ours}"), true),
    ] {
        let store = open(query.clone()).await.unwrap();
        assert_eq!(is_encrypted(&database).await, encrypted, "{query}");
        store.close().await;
        drop(store);
        until_gone(&database).await;
    }
    for query in
        ["sslmode=require".to_owned(), format!("sslmode=require&sslrootcert={other}"), format!("sslrootcert={other}")]
    {
        let error = open(query.clone()).await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "untrusted_server"), "{query}: {error:?}");
    }
    for query in ["sslrootcert=/nowhere.pem", "sslmode=maybe"] {
        let error = open(query.to_owned()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidInput, "{query}: {error:?}");
    }
}

/// A certificate of the right authority for another name is refused.
#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let Some(server) = skip_or_fail(PgServer::private(DEFAULT_MAJOR).await) else { return };
    let authority = Authority::new();
    encrypt(&server, authority.certify("db.example.com")).await;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root.pem");
    std::fs::write(&root, authority.0.pem()).unwrap();
    let url = format!("{}?sslmode=require&sslrootcert={}", server.url("postgres"), root.display());
    let error = PostgresStore::open(&url, options()).await.unwrap_err();
    assert_eq!(error.code(), "untrusted_server", "{error:?}");
}

/// Who names an authority is not content with a server without encryption, unless the URL says so.
#[tokio::test]
async fn an_authority_that_is_named_is_asked_for() {
    let Some(database) = installed(false).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root.pem");
    std::fs::write(&root, Authority::new().0.pem()).unwrap();
    let url = format!("{}?sslrootcert={}", database.url(), root.display());
    let error = PostgresStore::open(&url, options()).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "cannot_connect"), "{error:?}");
    PostgresStore::open(&format!("{url}&sslmode=prefer"), options()).await.unwrap();
}

async fn until_gone(database: &TestDatabase) {
    let client = database.connect().await.unwrap();
    let left =
        "select count(*) from pg_stat_activity where application_name = 'fencepost' and datname = current_database()";
    let gone = async || client.query_one(left, &[]).await.unwrap().get::<_, i64>(0) == 0;
    until("the store's sessions are gone", gone).await;
}
