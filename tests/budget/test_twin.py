"""The twin against cases whose answer is known, and its shape under load."""

from dataclasses import replace

import pytest

from budget.devices import DEVICES, cost, machine
from budget.measured import model
from budget.twin import Cost, Engine, Machine, Piece, Rules, Simulation, Talk, Target, capacity, latency


def piece(engine: str, seconds: float) -> Piece:
    return Piece(engine, seconds, spread=0.0)


COST = Cost(
    partial=piece("asr", 0.1),
    ahead=piece("llm", 0.02),
    final=piece("asr", 0.1),
    judge=piece("turn", 0.05),
    first_words=piece("llm", 0.1),
    first_clause=piece("tts", 0.08),
    more_words=piece("llm", 0.2),
    more_clauses=piece("tts", 0.2),
)
TWO_CORES = Machine(2.0, (Engine("asr", 2, background=True), Engine("llm", 1), Engine("tts", 1), Engine("turn", 1)))
CERTAIN = Talk(waits=((1.0, 0.2),))


def faster(cost: Cost, factor: float) -> Cost:
    """The same work on a device that does it `factor` times as fast."""

    def sooner(piece: Piece) -> Piece:
        return replace(piece, seconds=piece.seconds / factor)

    return replace(
        cost,
        partial=sooner(cost.partial),
        ahead=sooner(cost.ahead),
        final=sooner(cost.final),
        judge=sooner(cost.judge),
        first_words=sooner(cost.first_words),
        first_clause=sooner(cost.first_clause),
        more_words=sooner(cost.more_words),
        more_clauses=sooner(cost.more_clauses),
    )


def test_one_call_is_as_late_as_its_stages_take() -> None:
    alone = Simulation(TWO_CORES, COST, CERTAIN, calls=1).run(300.0)
    stages = CERTAIN.notices + 0.1 + 0.1 + 0.08 + CERTAIN.playout
    assert min(alone.latencies) == pytest.approx(stages, abs=0.02)
    assert latency(TWO_CORES, COST, CERTAIN, 1, share=0.5) == pytest.approx(stages, abs=0.1)


def test_a_long_silence_hides_the_work() -> None:
    patient = replace(CERTAIN, waits=((1.0, 0.9),))
    assert latency(TWO_CORES, COST, patient, 1, share=0.5) == pytest.approx(0.9 + CERTAIN.playout, abs=0.01)


def test_latency_grows_with_calls_and_the_machine_never_does_more_than_it_can() -> None:
    times = [latency(TWO_CORES, COST, CERTAIN, calls, share=0.95) for calls in (1, 6, 14)]
    assert times == sorted(times)
    crowded = Simulation(TWO_CORES, COST, CERTAIN, calls=14).run(120.0)
    assert crowded.busy <= 2.0 * 120.0
    assert crowded.busy > 1.0 * 120.0


def test_partials_that_give_way_leave_room_for_more_calls() -> None:
    pushy = replace(COST, spared=0.0)
    times = [latency(TWO_CORES, one, CERTAIN, 10, share=0.95) for one in (COST, pushy)]
    assert times[0] < times[1]


@pytest.mark.parametrize("rules", [Rules(classes=False), Rules(background=False), Rules(sparing=False)])
def test_each_rule_of_the_order_of_work_gains_time(rules: Rules) -> None:
    pushy = replace(COST, spared=0.0, interval=0.3)
    kept, without = (latency(TWO_CORES, pushy, CERTAIN, 9, rules=one) for one in (Rules(), rules))
    assert kept < without


def test_work_in_the_background_takes_a_tenth_of_what_others_want() -> None:
    one_core = replace(TWO_CORES, cores=1.0, media=0.0)
    none, endless = replace(COST, interval=1000.0), replace(COST, partial=piece("asr", 500.0), interval=0.5)
    alone, beside = (
        latency(one_core, cost, CERTAIN, 1, share=0.5, seconds=300.0) - 0.08 - CERTAIN.playout
        for cost in (none, endless)
    )
    assert beside == pytest.approx(alone / 0.9, rel=0.02)


def test_a_machine_twice_as_fast_carries_more_calls() -> None:
    target = Target(0.95, 0.8)
    slow, fast = (capacity(TWO_CORES, one, CERTAIN, target) for one in (COST, faster(COST, 2.0)))
    assert 1 <= slow < fast


def test_a_target_that_one_call_misses_is_no_capacity() -> None:
    assert capacity(TWO_CORES, COST, CERTAIN, Target(0.95, 0.1)) == 0


def test_the_same_seed_simulates_the_same() -> None:
    first, again = (Simulation(TWO_CORES, COST, CERTAIN, calls=4, seed=7).run(60.0).latencies for _ in range(2))
    assert first == again


def test_batches_carry_more_than_one_at_a_time() -> None:
    single = Machine(2.0, tuple(Engine(name) for name in ("asr", "llm", "tts", "turn")))
    batched = Machine(2.0, tuple(Engine(name, batch=8, each=0.1) for name in ("asr", "llm", "tts", "turn")))
    target = Target(0.95, 0.8)
    assert capacity(batched, COST, CERTAIN, target) > capacity(single, COST, CERTAIN, target)


@pytest.mark.parametrize("name", sorted(DEVICES))
def test_every_known_device_can_be_planned_for(name: str) -> None:
    device = DEVICES[name]
    assert latency(machine(device), cost(device), CERTAIN, 2, seconds=60.0) < 1.0


def result(**changes: object) -> dict:
    work = {
        "asr/partial": {"pieces": 40, "took_ms": 90.0},
        "asr/first_audio": {"pieces": 10, "took_ms": 100.0},
        "turn/first_audio": {"pieces": 10, "took_ms": 40.0},
        "llm/first_audio": {"pieces": 10, "took_ms": 90.0},
        "llm/continuation": {"pieces": 10, "took_ms": 200.0},
        "llm/speculation": {"pieces": 40, "took_ms": 15.0},
        "tts/first_audio": {"pieces": 10, "took_ms": 70.0},
        "tts/continuation": {"pieces": 20, "took_ms": 200.0},
    }
    turns = [{"at_s": 10.0 * i, "spoken_s": 3.0, "voice_to_voice_ms": 300.0 + 10 * i} for i in range(10)]
    step = {"calls": 1, "seconds": 100.0, "server": {"work": work, "cores": 0.2}, "results": [{"turns": turns}]}
    return {"steps": [{**step, **changes}]}


def test_a_measured_call_is_simulated_as_it_was_measured() -> None:
    found, costs, talk = model(result())
    assert costs.interval == pytest.approx(0.75)
    assert costs.clauses == 2
    assert talk.answer == pytest.approx(10 - 3 - 0.315 - 1.25, abs=0.05)
    assert 0 < found.media < 0.2
    assert latency(found, costs, talk, 1, share=0.5) == pytest.approx(0.35, abs=0.07)


@pytest.mark.parametrize("broken", [{}, {"steps": []}, {"steps": [{"calls": 2}]}, result(server={"work": {}}), 7])
def test_what_is_no_measurement_is_said(broken: object) -> None:
    with pytest.raises(ValueError, match=r"no result|nothing is told"):
        model(broken)  # type: ignore[arg-type]
