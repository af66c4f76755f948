"""Schedules as JSON: requests, stored definitions, the seeds of a firing, and marks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from crawlstream.errors import InvalidRequest
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.recurring.schedule import AT, STOP_NUMBER, Occasion, Schedule, ScheduleMark
from crawlstream.model.recurring.seed_files import SEED_FILES, place_of
from crawlstream.model.recurring.times import cron_problem, smallest_gap_s, zone_problem
from crawlstream.model.request import Refusal, RequestLimits, ScheduleRequest
from crawlstream.model.scope import Scope, scope_fields
from crawlstream.wire import jsontext
from crawlstream.wire.crawl_request import crawl_request
from crawlstream.wire.schemas import Schema

_SEED = Schema.bundled("scraper")
_DEFINITION = (
    *("cron", "zone", "crawl", "seeds", "seeds_from", "scope", "overlap", "catch_up_s", "jitter_s"),
    "until",
)
_OF_A_FIRING = ("appid", "uuid", "occasion", "expires", "not_before")
"""Fields of a crawl request that a schedule sets itself, or that are times."""
_OF_THE_CRAWL = ("crawlid", "spiderid")
"""Fields that all seeds share: a firing is a single crawl."""
_SCOPES = ("allowed_domains", "allow_regex")
"""Fields of a crawl request that say which links are followed."""
_EXAMPLE_AT = 1_767_225_600
_EXAMPLE_SEED: Mapping[str, object] = {"url": "http://example.com/"}
_MOST_PROBLEMS = 10
_SEEDS = ("seeds", "seeds_from")


def schedule_request(fields: Mapping[str, Any], limits: RequestLimits) -> ScheduleRequest:
    """Return the request of an object that fits the schema; ``fields`` is not changed.

    Raise InvalidRequest for problems that a schema cannot express.
    """
    do = fields.get("do", "set")
    if do != "set":
        told = [name for name in _DEFINITION if fields.get(name) is not None]
        _refuse([f"$.{name}: must be given with `set` only" for name in told])
        return ScheduleRequest(
            uuid=fields["uuid"], appid=fields["appid"], name=fields["schedule"], do=do
        )
    wanted = ["cron", "crawl", *(() if fields.get("seeds_from") else ("seeds",))]
    _refuse([f"$.{name}: is required by `set`" for name in wanted if fields.get(name) is None])
    if fields.get("seeds") and fields.get("seeds_from"):
        _refuse(["$.seeds_from: must not be given together with `seeds`"])
    if (size := len(jsontext.dumps(fields))) > limits.max_schedule_bytes:
        _refuse([f"$: a schedule has at most {limits.max_schedule_bytes} bytes (got {size})"])
    schedule = schedule_from({**fields, "scope": fields.get("scope") or _default_scope(fields)})
    _refuse(list(_time_problems(schedule, limits)))
    _refuse(_field_problems(schedule))
    _check_seeds(schedule, limits)
    if schedule.seeds_from:
        _refuse(_file_problems(schedule.seeds_from, limits))
    return ScheduleRequest(
        uuid=fields["uuid"], appid=fields["appid"], name=schedule.name, schedule=schedule
    )


def _default_scope(fields: Mapping[str, Any]) -> Scope:
    """Return the scope of a new schedule that names none: pages stay on the host of their seed."""
    return Scope.ANY if any(name in fields["crawl"] for name in _SCOPES) else Scope.HOST


def schedule_from(fields: Mapping[str, Any]) -> Schedule:
    """Return the schedule of an object that fits the schema; what is stored may lack a scope."""
    told = {name: fields[name] for name in _DEFINITION if name in fields}
    told["scope"] = Scope(told.get("scope") or Scope.ANY)
    listed = fields.get("seeds") or ()
    seeds = [{"url": seed} if isinstance(seed, str) else seed for seed in listed]
    return Schedule(appid=fields["appid"], name=fields["schedule"], **{**told, "seeds": seeds})


def encode_request(request: ScheduleRequest) -> bytes:
    """Return a request as JSON; ``schedule_request`` reads it."""
    record: dict[str, object] = {
        "uuid": request.uuid,
        "appid": request.appid,
        "schedule": request.name,
        "do": request.do,
    }
    return jsontext.dumps(record | (definition(request.schedule) if request.schedule else {}))


def definition(schedule: Schedule) -> dict[str, object]:
    """Return the fields of a schedule without its names; a seed with only a URL becomes text."""
    told: dict[str, object] = {
        name: getattr(schedule, name) for name in _DEFINITION if name not in _SEEDS
    }
    if schedule.seeds_from:
        return {**told, "crawl": dict(schedule.crawl), "seeds_from": schedule.seeds_from}
    seeds = [seed["url"] if seed.keys() == {"url"} else dict(seed) for seed in schedule.seeds]
    return {**told, "crawl": dict(schedule.crawl), "seeds": seeds}


def decode_request(value: bytes) -> ScheduleRequest:
    """Return the request of a result of ``encode_request``, without validating it again."""
    fields = _object(value)
    do = fields["do"]
    schedule = schedule_from(fields) if do == "set" else None
    return ScheduleRequest(
        uuid=fields["uuid"],
        appid=fields["appid"],
        name=fields["schedule"],
        do=do,
        schedule=schedule,
    )


def encode(schedule: Schedule) -> bytes:
    """Return a schedule as it is stored."""
    names = {"appid": schedule.appid, "schedule": schedule.name}
    return jsontext.dumps(names | definition(schedule))


def decode(value: bytes) -> Schedule:
    """Return the schedule of a result of ``encode``; raise ValueError for other bytes."""
    try:
        return schedule_from(_object(value))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a schedule: {value[:40]!r}") from error


def encode_mark(mark: ScheduleMark) -> bytes:
    """Return the mark of a schedule that was not removed, as UTF-8 JSON."""
    record: dict[str, object] = {"appid": mark.appid, "schedule": mark.name}
    if mark.schedule is None:
        crawl = asdict(mark.last_crawl) if mark.last_crawl else None
        return jsontext.dumps(record | {"last": mark.last, "crawl_of_last": crawl})
    more = {"version": mark.version, "paused": mark.is_paused, "since": mark.since}
    return jsontext.dumps(record | more | definition(mark.schedule))


def decode_mark(value: bytes) -> ScheduleMark:
    """Return the mark in a record's value; raise ValueError for other bytes."""
    record = _object(value)
    try:
        appid, name = record["appid"], record["schedule"]
        if "last" in record:
            crawl = record["crawl_of_last"]
            last_crawl = CrawlKey(**crawl) if crawl else None
            return ScheduleMark(
                appid=appid, name=name, last=int(record["last"]), last_crawl=last_crawl
            )
        return ScheduleMark(
            appid=appid,
            name=name,
            version=int(record["version"]),
            schedule=schedule_from(record),
            is_paused=bool(record["paused"]),
            since=int(record["since"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not the state of a schedule: {value[:40]!r}") from error


def crawl_at(schedule: Schedule, at: int) -> CrawlKey:
    """Return the crawl that the firing of a time feeds."""
    # Firings within a minute must feed different crawls.
    form = "%Y%m%dT%H%MZ" if at % 60 == 0 else "%Y%m%dT%H%M%SZ"
    stamp = datetime.fromtimestamp(at, UTC).strftime(form)
    crawlid = str(schedule.crawl.get("crawlid", "")).replace(AT, stamp)
    return CrawlKey(str(schedule.crawl.get("spiderid", "link")), schedule.appid, crawlid)


def encode_seeds(
    schedule: Schedule, at: int, seeds: Iterable[Mapping[str, object]], *, first_number: int = 0
) -> Iterator[bytes]:
    """Yield the crawl requests of a firing as records, in order; a repetition yields the same."""
    crawl = crawl_at(schedule, at)
    shared = {**schedule.crawl, "appid": schedule.appid, "crawlid": crawl.crawlid}
    for number, seed in enumerate(seeds, first_number):
        occasion = asdict(Occasion(schedule.name, at, number))
        # kafka-monitor recognises later records by the first one if fields have this order.
        named = {"url": seed.get("url"), "occasion": occasion, **shared, **seed}
        yield jsontext.dumps({**named, **_scope_of(schedule, seed)})


def _scope_of(schedule: Schedule, seed: Mapping[str, Any]) -> Mapping[str, object]:
    """Return the fields that keep the pages below a seed within the schedule's scope.

    None are needed without links, and a seed may have its own.
    """
    has_own = any(name in seed for name in _SCOPES)
    if has_own or not {**schedule.crawl, **seed}.get("maxdepth"):
        return {}
    allowed: Any = schedule.crawl.get("allowed_domains") or ()
    return scope_fields(schedule.scope, [str(seed.get("url"))], allowed)


def encode_inline(schedule: Schedule) -> bytes:
    """Return the seeds in the schedule itself, to compare them."""
    return jsontext.dumps(schedule.seeds)


def encode_stop(schedule: Schedule, at: int, crawl: CrawlKey) -> bytes:
    """Return the stop of an older crawl, which precedes the seeds of a firing."""
    occasion = asdict(Occasion(schedule.name, at, STOP_NUMBER))
    uuid = f"schedule-{at}"
    return jsontext.dumps({"action": "stop", "uuid": uuid, **asdict(crawl), "occasion": occasion})


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise InvalidRequest(Refusal.BAD_REQUEST, list(problems[:_MOST_PROBLEMS]))


def _time_problems(schedule: Schedule, limits: RequestLimits) -> Iterator[str]:
    if problem := zone_problem(schedule.zone):
        yield f"$.zone: {problem}"
    if problem := cron_problem(schedule.cron, min_s=limits.schedule_min_s):
        yield f"$.cron: {problem}"
        return
    gap_s = smallest_gap_s(schedule.cron)
    if gap_s < limits.schedule_min_s:
        yield (
            f"$.cron: fires every {gap_s} s; the smallest gap is {limits.schedule_min_s} s"
            " (CRAWLSTREAM_SCHEDULE_MIN_S)"
        )
    if schedule.jitter_s >= gap_s:
        yield f"$.jitter_s: must be less than {gap_s}, the smallest gap between two firings"


def _field_problems(schedule: Schedule) -> list[str]:
    found = [
        f"$.crawl.{name}: a schedule cannot set it"
        for name in ("url", *_OF_A_FIRING)
        if name in schedule.crawl
    ]
    if schedule.scope is Scope.PREFIX and schedule.crawl.get("allow_regex"):
        found.append("$.scope: prefix cannot be combined with `allow_regex`")
    if "crawlid" not in schedule.crawl:
        found.append("$.crawl: required field 'crawlid' is missing")
    for number, seed in enumerate(schedule.seeds):
        found += [f"$.seeds[{number}]{problem}" for problem in seed_problems(seed)]
        if len(found) >= _MOST_PROBLEMS:
            break
    return found


def seed_problems(seed: Mapping[str, object]) -> list[str]:
    """Return problems with the fields of a seed, each with the path of its field first."""
    names = [name for name in (*_OF_A_FIRING, *_OF_THE_CRAWL) if name in seed]
    found = [f".{name}: a seed cannot set it" for name in names]
    return found if "url" in seed else [*found, ": required field 'url' is missing"]


def _file_problems(url: str, limits: RequestLimits) -> list[str]:
    if not url.endswith(SEED_FILES):
        return [f"$.seeds_from: must end in {', '.join(SEED_FILES)}"]
    if limits.seed_stores is None or place_of(url, limits.seed_stores):
        return []
    return ["$.seeds_from: is in none of the operator's folders (CRAWLSTREAM_SEED_STORES)"]


def _check_seeds(schedule: Schedule, limits: RequestLimits) -> None:
    """Check the fields that seeds share once, and the own fields of each seed."""
    crawl = crawl_at(schedule, _EXAMPLE_AT)
    example = schedule.seeds[0] if schedule.seeds else _EXAMPLE_SEED
    (whole,) = encode_seeds(schedule, _EXAMPLE_AT, [example])
    _check_seed(0, _object(whole), limits)
    for number, seed in enumerate(schedule.seeds):
        _check_seed(number, {"appid": crawl.appid, "crawlid": crawl.crawlid, **seed}, limits)


def _check_seed(number: int, seed: Mapping[str, Any], limits: RequestLimits) -> None:
    """Raise InvalidRequest if a seed would be refused when it is fed."""
    if not _SEED.fits(seed):
        _refuse([_of_seed(number, problem) for problem in _SEED.problems(seed)])
    try:
        crawl_request(seed, limits)
    except InvalidRequest as error:
        problems = [_of_seed(number, problem) for problem in error.problems]
        raise InvalidRequest(error.reason, problems) from error


def _of_seed(number: int, problem: str) -> str:
    return problem.replace("$", f"$.seeds[{number}]", 1)


def _object(value: bytes) -> Mapping[str, Any]:
    record: Any = jsontext.loads(value)
    if not isinstance(record, dict):
        raise ValueError(f"not an object: {value[:40]!r}")  # noqa: TRY004  as of all bad bytes
    return record
