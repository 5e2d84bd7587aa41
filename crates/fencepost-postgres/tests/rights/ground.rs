//! Two queues with everything in them, and roles of which each has one right on one of them.

use fencepost_test_support::TestDatabase;
use tokio_postgres::{Client, Config, NoTls};

use crate::stage::installed;

/// What a refused right is called.
pub const REFUSED: &str = "42501";

/// `own` is what rights are granted on, `other` what they are not.
pub struct Ground {
    pub database: TestDatabase,
    pub admin: Client,
}

/// The roles: what each of them was granted.
pub const ROLES: [&str; 4] = ["producer", "consumer", "holder", "stranger"];

impl Ground {
    pub async fn new() -> Option<Self> {
        let database = installed(false).await?;
        let admin = database.connect().await.unwrap();
        let ground = Self { database, admin };
        ground.fill().await;
        Some(ground)
    }

    async fn fill(&self) {
        for queue in ["own", "other"] {
            let fill = format!(
                "select fencepost.create_queue('{queue}'), fencepost.create_consumer('{queue}', 'c');
                select fencepost.send('{queue}', 'secret of {queue}'::text, key => 'k');
                select fencepost.send('{queue}', 'dead of {queue}'::text, key => 'd');
                select fencepost.send('{queue}', 'later of {queue}'::text, delay => '1 h');
                select id from fencepost.send_once('{queue}', 'once of {queue}', 'once');
                select fencepost._schedule_put('schedule of {queue}', '@daily', 'UTC', '{queue}', 'k', null, 'secret of {queue}',
                    'one', 0, null, null, now(), now() + '1 day', now() + '1 day');
                insert into fencepost.fired (schedule_id, nominal_at, fired_at, message)
                    select id, now(), now(), 1 from fencepost.schedule where queue = '{queue}'"
            );
            self.run(&fill).await;
            let work = format!(
                "do $$
                declare s record;
                begin
                    select * into s from fencepost.claim('{queue}', 'c', 'w', '1 h');
                    perform fencepost.receive('{queue}', 'c', s.slot, s.epoch, 2);
                    perform fencepost.dead_letter('{queue}', 'c', s.slot, s.epoch, 1, 2, 'reason of {queue}');
                    perform fencepost.ack('{queue}', 'c', s.slot, s.epoch, 1);
                    perform fencepost.receive('{queue}', 'c', s.slot, s.epoch, 1);
                    perform fencepost.lease_acquire('{queue}/x', 'h', '1 h');
                end
                $$"
            );
            self.run(&work).await;
        }
        for role in ROLES {
            let role = self.role(role);
            self.run(&format!("create role {role} login password 'secret'")).await;
        }
        self.run(&format!(
            "select fencepost.grant_queue('own', '{}', 'producer'), fencepost.grant_queue('own', '{}', 'consumer'), \
             fencepost.grant_lease('own/', '{}')",
            self.role("producer"),
            self.role("consumer"),
            self.role("holder")
        ))
        .await;
    }

    /// The name of a role; roles are of the whole server.
    pub fn role(&self, name: &str) -> String {
        format!("{name}_{}", self.database.name())
    }

    /// A connection of a role.
    pub async fn client(&self, role: &str) -> Client {
        let mut config: Config = self.url(role).parse().unwrap();
        config.application_name(role);
        let (client, connection) = config.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// The URL that a role opens the store by.
    pub fn url(&self, role: &str) -> String {
        format!("postgres://{}:secret@{}/{}", self.role(role), self.database.server().address(), self.database.name())
    }

    pub async fn run(&self, sql: &str) {
        run(&self.admin, sql).await;
    }

    /// Everything that is stored of a queue, and of the leases that begin with its name: what a refused call must not change.
    pub async fn stored(&self, queue: &str) -> String {
        let number: i32 = self.value(&format!("select id from fencepost.queue where name = '{queue}'")).await.unwrap();
        let everything = format!(
            "select concat_ws(' ', (select q from fencepost.queue q where id = {number}),
                (select string_agg(l::text, ' ') from (select * from fencepost.q{number}_0 union all select * from fencepost.q{number}_1
                    union all select * from fencepost.q{number}_2 order by 1) l),
                (select concat(p.last_value, r.last_value, t.last_value, a.last_value) from fencepost.q{number}_position p,
                    fencepost.q{number}_removed r, fencepost.q{number}_turn t, fencepost.asleep_q{number} a),
                (select string_agg(concat(s, fencepost._state(s.consumer_id, s.slot)), ' ') from fencepost.slot s join fencepost.consumer c
                    on c.id = s.consumer_id where c.queue_id = {number}),
                (select string_agg(d::text, ' ' order by id) from fencepost.dead d where queue_id = {number}),
                (select string_agg(d::text, ' ' order by id) from fencepost.delayed d where queue_id = {number}),
                (select string_agg(o::text, ' ') from fencepost.once o where queue_id = {number}),
                (select string_agg(c::text, ' ') from fencepost.consumer c where queue_id = {number}),
                (select string_agg(s::text, ' ') from fencepost.schedule s where queue = '{queue}'),
                (select string_agg(l::text, ' ' order by id) from fencepost._lease_state l where starts_with(name, '{queue}/')))"
        );
        self.value(&everything).await.unwrap()
    }

    /// The first column of the only row.
    pub async fn value<T>(&self, sql: &str) -> Option<T>
    where
        T: for<'r> tokio_postgres::types::FromSql<'r>,
    {
        let rows = self.admin.query(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        rows.first().and_then(|row| row.get(0))
    }

    /// Takes the roles away again, and whatever they own.
    pub async fn clear(self) {
        for role in ROLES {
            let role = self.role(role);
            self.run(&format!("drop owned by {role} cascade; drop role {role}")).await;
        }
    }
}

pub async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}

/// The SQLSTATE that a statement ends with; `done` when it does not fail.
pub async fn outcome(client: &Client, sql: &str) -> String {
    match client.batch_execute(sql).await {
        Ok(()) => "done".to_owned(),
        Err(error) => error.code().unwrap_or_else(|| panic!("{sql}: {error:?}")).code().to_owned(),
    }
}
