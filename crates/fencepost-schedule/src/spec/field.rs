//! One field of a cron spec: its items as they were written, and the set of numbers that they are.

use std::fmt;
use std::ops::RangeInclusive;

use fencepost_core::{Error, Result};

use super::part::Part;

/// Which field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Second,
    Minute,
    Hour,
    DayOfMonth,
    Month,
    DayOfWeek,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Place::Second => "second",
            Place::Minute => "minute",
            Place::Hour => "hour",
            Place::DayOfMonth => "day of the month",
            Place::Month => "month",
            Place::DayOfWeek => "day of the week",
        }
    }

    /// What may be written. Both 0 and 7 are Sunday.
    fn range(self) -> RangeInclusive<u8> {
        match self {
            Place::Second | Place::Minute => 0..=59,
            Place::Hour => 0..=23,
            Place::DayOfMonth => 1..=31,
            Place::Month => 1..=12,
            Place::DayOfWeek => 0..=7,
        }
    }

    /// The last number that is not another name of an earlier one.
    fn last(self) -> u8 {
        if self == Place::DayOfWeek { 6 } else { *self.range().end() }
    }

    /// The names of the numbers, from the first one on.
    fn names(self) -> &'static [&'static str] {
        match self {
            Place::Month => &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
            Place::DayOfWeek => &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
            _ => &[],
        }
    }

    fn allowed(self) -> String {
        let (first, last) = (self.range().start().to_owned(), self.range().end().to_owned());
        match (self, self.names()) {
            (Place::DayOfMonth, _) => format!("allowed are {first} to {last}, and `L` for the last day"),
            (_, [one, .., other]) => format!("allowed are {first} to {last}, and `{one}` to `{other}`"),
            _ => format!("allowed are {first} to {last}"),
        }
    }
}

/// An element of a list. The order is that of canonical text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    /// `*`, or `*/n`.
    Every { step: u8 },
    /// `a`, `a-b` or `a-b/n`.
    Range { first: u8, last: u8, step: u8 },
    /// `L`.
    Last,
}

/// A field that was read.
#[derive(Debug, Clone)]
pub struct Field {
    items: Vec<Item>,
    set: u64,
}

impl Field {
    /// The second of a spec that names none.
    pub fn zero() -> Self {
        Self { items: vec![Item::Range { first: 0, last: 0, step: 1 }], set: 1 }
    }

    /// Reads a field.
    ///
    /// # Errors
    /// `invalid_input`.
    pub fn parse(place: Place, text: Part<'_>) -> Result<Self> {
        let mut items = text.split(',').map(|item| Item::parse(place, item)).collect::<Result<Vec<_>>>()?;
        items.sort_unstable();
        items.dedup();
        let all = Item::Every { step: 1 };
        if items.contains(&all) {
            items = vec![all];
        }
        let set = items.iter().fold(0, |set, item| set | item.set(place));
        Ok(Self { items, set })
    }

    /// The numbers that match, as bits. Sunday is 0.
    pub fn set(&self) -> u64 {
        self.set
    }

    /// Whether the last day of the month matches.
    pub fn has_last(&self) -> bool {
        self.items.contains(&Item::Last)
    }

    /// Whether a `*` is in it, with or without a step.
    pub fn has_star(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Every { .. }))
    }

    /// Whether it is `0`.
    pub fn is_zero(&self) -> bool {
        self.set == 1
    }
}

impl Item {
    fn parse(place: Place, text: Part<'_>) -> Result<Self> {
        let refuse = |why: &str, hint: &str| Err(text.refuse(place.name(), why, hint));
        if text.is_empty() {
            return refuse("is empty", &place.allowed());
        }
        if place == Place::DayOfMonth && text.text().eq_ignore_ascii_case("l") {
            return Ok(Item::Last);
        }
        if let Some(error) = unknown_extension(place, text) {
            return Err(error);
        }
        let (base, step) = match text.split_once('/') {
            Some((base, step)) => (base, Some(step)),
            None => (text, None),
        };
        let parsed = step.map_or(Ok(1), |step| parse_step(place, step))?;
        if matches!(base.text(), "*" | "?") {
            return Ok(Item::Every { step: parsed });
        }
        let Some((first, last)) = base.split_once('-') else {
            let number = number(place, base).map(|number| if number > place.last() { 0 } else { number })?;
            if step.is_some() {
                let written = format!("write `{number}-{}/{parsed}`", place.last());
                return refuse("has a step without a range, which not every cron reads alike", &written);
            }
            return Ok(Item::Range { first: number, last: number, step: 1 });
        };
        let (first, mut last) = (number(place, first)?, number(place, last)?);
        if place == Place::DayOfWeek && last == 0 && first > 0 {
            last = 7;
        }
        if first > last {
            let forwards = forwards(place, first, last, parsed);
            return refuse("is a range that runs backwards", &format!("write `{forwards}`"));
        }
        if first > place.last() {
            return Ok(Item::Range { first: 0, last: 0, step: 1 });
        }
        Ok(Item::Range { first, last, step: if first == last { 1 } else { parsed } })
    }

    fn set(self, place: Place) -> u64 {
        let (first, last, step) = match self {
            Item::Every { step } => (*place.range().start(), place.last(), step),
            Item::Range { first, last, step } => (first, last, step),
            Item::Last => return 0,
        };
        let number = |number: u8| if number > place.last() { 0 } else { number };
        (first..=last).step_by(step.into()).fold(0, |set, at| set | 1 << number(at))
    }
}

/// What a range that runs backwards means, past the field's last number and on from its first one.
fn forwards(place: Place, first: u8, last: u8, step: u8) -> String {
    let (least, most) = (*place.range().start(), place.last());
    // Only Sunday has a number past the last one.
    match (first > most, step) {
        (true, 1) => return format!("{least}-{last}"),
        (true, step) => return format!("{least}-{last}/{step}"),
        (false, 1) => return format!("{first}-{most},{least}-{last}"),
        (false, _) => {}
    }
    let round = most - least + 1;
    let numbers = (first..=last + round).step_by(step.into());
    let numbers = numbers.map(|number| if number > most { number - round } else { number }.to_string());
    numbers.collect::<Vec<_>>().join(",")
}

fn parse_step(place: Place, text: Part<'_>) -> Result<u8> {
    let most = place.last();
    let found = digits(text).and_then(|digits| digits.parse().ok()).filter(|step| (1..=most).contains(step));
    found.ok_or_else(|| {
        let mut hint = format!("allowed are steps of 1 to {most}");
        // A step starts anew with every hour or day, so `*/90` is not what its author thinks it is.
        let unit = match place {
            Place::Second => "s",
            Place::Minute => "m",
            Place::Hour => "h",
            Place::DayOfMonth => "d",
            Place::Month | Place::DayOfWeek => "",
        };
        let long = digits(text).and_then(|digits| digits.parse().ok()).filter(|step: &u32| *step > most.into());
        if let Some(step) = long.filter(|_| !unit.is_empty()) {
            hint.push_str(&format!("; for an interval of real time write `@every {step}{unit}`"));
        }
        text.refuse(place.name(), "is no step that fits", hint)
    })
}

/// What other crons know and this one does not.
fn unknown_extension(place: Place, text: Part<'_>) -> Option<Error> {
    let lower = text.text().to_ascii_lowercase();
    let is_day = matches!(place, Place::DayOfMonth | Place::DayOfWeek);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_weekday = |text: &str| is_number(text) || Place::DayOfWeek.names().contains(&text);
    let why = if lower.contains('#') {
        "asks for one of a month's weekdays by its number, which is not known here"
    } else if is_day && (matches!(lower.as_str(), "w" | "lw") || lower.strip_suffix('w').is_some_and(is_number)) {
        "asks for the nearest working day, which is not known here"
    } else if is_day && (lower == "l" || lower.starts_with("l-") || lower.strip_suffix('l').is_some_and(is_weekday)) {
        "asks for a last day that is not known here"
    } else {
        return None;
    };
    let instead = "schedule every day that may be meant, and have the handler look at the nominal time";
    Some(text.refuse(place.name(), why, instead))
}

fn digits(text: Part<'_>) -> Option<&str> {
    let digits = text.text();
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(digits)
}

/// A number or a name.
fn number(place: Place, text: Part<'_>) -> Result<u8> {
    let refuse = |why: &str| text.refuse(place.name(), why, place.allowed());
    if text.is_empty() {
        return Err(refuse("is empty"));
    }
    if let Some(digits) = digits(text) {
        let found = digits.parse().ok().filter(|number| place.range().contains(number));
        return found.ok_or_else(|| refuse("is out of range"));
    }
    let named = place.names().iter().position(|name| text.text().eq_ignore_ascii_case(name));
    let is_named = if place.names().is_empty() { "is not a number" } else { "is neither a number nor a name" };
    named.map(|at| place.range().start() + at as u8).ok_or_else(|| refuse(is_named))
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, item) in self.items.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            let step = match *item {
                Item::Every { step } => {
                    f.write_str("*")?;
                    step
                }
                Item::Range { first, last, step } => {
                    if first == last {
                        write!(f, "{first}")?
                    } else {
                        write!(f, "{first}-{last}")?
                    }
                    step
                }
                Item::Last => {
                    f.write_str("L")?;
                    1
                }
            };
            if step > 1 {
                write!(f, "/{step}")?;
            }
        }
        Ok(())
    }
}
