//! `fencepost schedule preview`: when a schedule fires next, by the clocks of its zone and in UTC.

use std::time::SystemTime;

use fencepost::refusal::no_schedule;
use fencepost::{Error, Kind, Preview, Result, Schedule, ScheduleName, Shift, Spec, Timestamp, Timetable, Zone};
use serde_json::{Value, json};

use crate::cli::SchedulePreviewArgs;
use crate::open;
use crate::printer::Printer;
use crate::table::Table;
use crate::text;

/// What is shown.
struct Shown {
    spec: String,
    timetable: Timetable,
    after: Timestamp,
}

/// Runs the command.
pub async fn run(url: &str, args: &SchedulePreviewArgs, printer: &Printer) -> Result<()> {
    let count = usize::try_from(args.count).ok().filter(|count| (1..=1_000).contains(count)).ok_or_else(|| {
        Error::invalid(format!("cannot show `{}` times", args.count), "allowed are 1 to 1000").with("argument", "count")
    })?;
    let from = args.from.as_deref().map(str::parse).transpose()?;
    let zone = args.zone.as_deref().map(Zone::parse).transpose()?;
    let shown = match stored(url, args, from).await {
        Ok(Some(shown)) if zone.is_none() => shown,
        Ok(Some(_)) => {
            return Err(Error::invalid(
                "cannot use `--zone` with a schedule that has one",
                "leave it out, or give a spec",
            )
            .with("argument", "zone"));
        }
        // A spec needs no store.
        Ok(None) => of_spec(args, zone, from)?,
        Err(error) if error.kind() == Kind::NotFound || Spec::parse(&args.what).is_ok() => of_spec(args, zone, from)?,
        Err(error) => return Err(error),
    };
    let fires = shown.timetable.preview(shown.after, count);
    let zone = shown.timetable.zone().name().to_owned();
    let human = || match &*fires {
        [] => "it does not fire any more".to_owned(),
        fires => table(fires).render(),
    };
    printer.answer(
        human,
        || json!({"spec": shown.spec, "zone": zone, "fires": fires.iter().map(json_of).collect::<Vec<_>>()}),
    )
}

/// The schedule of that name, if there is one.
async fn stored(url: &str, args: &SchedulePreviewArgs, from: Option<Timestamp>) -> Result<Option<Shown>> {
    let Ok(name) = ScheduleName::new(&args.what) else { return Ok(None) };
    open::existing(url, async |store| {
        let Some(status) = store.schedule(&name).await? else { return Ok(None) };
        let timetable = Schedule::of(&status)?.timetable(status.anchor_at);
        let after = match from {
            Some(from) => from,
            None => store.now().await?,
        };
        Ok(Some(Shown { spec: status.definition.spec, timetable, after }))
    })
    .await
}

fn of_spec(args: &SchedulePreviewArgs, zone: Option<Zone>, from: Option<Timestamp>) -> Result<Shown> {
    let spec = Spec::parse(&args.what).map_err(|error| {
        let is_word = !args.what.contains([' ', '@', ':']);
        if is_word { ScheduleName::new(&args.what).map_or(error, |name| no_schedule(&name)) } else { error }
    })?;
    let after = from.unwrap_or_else(now);
    let text = spec.to_string();
    Ok(Shown { spec: text, timetable: Timetable::new(spec, zone.unwrap_or_else(Zone::utc), after), after })
}

/// By this host's clock: nothing is stored of it.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::default() + since
}

fn table(fires: &[Preview]) -> Table {
    let mut table = Table::new(["local", "zone", "utc", "note"]);
    for fire in fires {
        table.row([
            format!("{}{}", fire.local, fire.offset()).into(),
            fire.abbreviation.clone().into(),
            fencepost::schedule::nominal_time(fire.nominal.at).into(),
            fire.note().into(),
        ]);
    }
    table
}

fn json_of(fire: &Preview) -> Value {
    json!({
        "at": text::rfc3339(fire.nominal.at),
        "local": format!("{}{}", fire.local, fire.offset()),
        "zone": fire.abbreviation,
        "dst": match fire.nominal.shift {
            Shift::None => None,
            Shift::AfterGap { .. } => Some("gap"),
            Shift::Overlap => Some("overlap"),
        },
        "note": fire.note(),
    })
}
