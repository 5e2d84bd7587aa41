//! What the workers write, a row a key, in the transaction of the ack: it shows what was lost, doubled or out of order.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost::postgres::tokio_postgres::{Client, Transaction};
use fencepost::{Message, MessageId};
use fencepost_bench_rows::Outcome;

use super::sender::{KEYS, Sender};

/// How long what was sent may take until it is handled.
const HANDLED_WITHIN: Duration = Duration::from_secs(120);

/// Makes the table. `next` is the number that the next message of the key must have.
pub async fn make(client: &Client) -> Outcome<()> {
    let table = "create table public.effect (key bigint primary key, next bigint not null, wrong bigint not null)
            with (fillfactor = 50);
        insert into public.effect select key, 0, 0 from generate_series(0, $$ - 1) key";
    Ok(client.batch_execute(&table.replace("$$", &KEYS.to_string())).await?)
}

/// Writes down that these messages were handled, in this order.
pub async fn apply(transaction: &Transaction<'_>, messages: &[Message], but: &[MessageId]) -> Outcome<()> {
    // Of each key: its first number, how many there are, and how many do not follow the one before.
    let mut keys: BTreeMap<i64, (i64, i64, i64)> = BTreeMap::new();
    for message in messages.iter().filter(|message| !but.contains(&message.id)) {
        let (key, number) = numbers(message)?;
        let (first, count, wrong) = keys.entry(key).or_insert((number, 0, 0));
        *wrong += i64::from(number != *first + *count);
        *count += 1;
    }
    let (mut key, mut first, mut count, mut wrong) = (vec![], vec![], vec![], vec![]);
    for (one, (from, many, late)) in keys {
        key.push(one);
        first.push(from);
        count.push(many);
        wrong.push(late);
    }
    let statement = "update public.effect e
            set next = e.next + n.count, wrong = e.wrong + n.wrong + (e.next <> n.first)::int
        from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) n (key, first, count, wrong)
        where e.key = n.key";
    transaction.execute(statement, &[&key, &first, &count, &wrong]).await?;
    Ok(())
}

fn numbers(message: &Message) -> Outcome<(i64, i64)> {
    let text = std::str::from_utf8(&message.payload)?;
    let mut words = text.split_whitespace();
    let mut number = || Outcome::Ok(words.next().ok_or("a message has two numbers")?.parse()?);
    Ok((number()?, number()?))
}

/// How many messages were handled.
pub async fn done(client: &Client) -> Outcome<u64> {
    let done: i64 = client.query_one("select sum(next)::bigint from public.effect", &[]).await?.get(0);
    Ok(done.cast_unsigned())
}

/// Waits until all that was sent is handled.
pub async fn wait_for(client: &Client, sent: u64) -> Outcome<()> {
    let handled = async {
        while done(client).await? < sent {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Outcome::Ok(())
    };
    match tokio::time::timeout(HANDLED_WITHIN, handled).await {
        Ok(done) => done,
        Err(_) => Err(format!("{} of {sent} messages were handled", done(client).await?).into()),
    }
}

/// Every message of every key exactly once and in its order.
pub async fn check(client: &Client, sender: &Sender) -> Outcome<()> {
    let mut wrong = 0;
    for row in client.query("select key, next, wrong from public.effect", &[]).await? {
        let (key, next): (i64, i64) = (row.get(0), row.get(1));
        let sent = sender.sent() / KEYS + u64::from(key.cast_unsigned() < sender.sent() % KEYS);
        wrong += u64::from(next.cast_unsigned() != sent || row.get::<_, i64>(2) != 0);
    }
    if wrong == 0 { Ok(()) } else { Err(format!("messages of {wrong} keys were lost, doubled or out of order").into()) }
}
