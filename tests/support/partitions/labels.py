"""The run that a partition works for: the coordinator names it, and reports its ending."""

from __future__ import annotations

from collections.abc import Iterator

from support.partitions.system import Step
from support.partitions.values import COORDINATOR, Answer, Bug, Cluster, Question, State, Tell


def steps(cluster: Cluster, state: State) -> Iterator[Step[State]]:
    """A partition with pages that it may not lease has the coordinator asked."""
    asked = {(q.partition, q.generation) for q in state.questions}
    asked |= {(a.question.partition, a.question.generation) for a in state.answers}
    for place, partition in enumerate(state.partitions):
        for generation, context in enumerate(partition.contexts):
            is_asking = (place, generation) in asked or context.is_dead or context.is_idle
            if not is_asking and not partition.may_lease(generation):
                question = Question(place, partition.life, generation)
                yield Step("ask", state._replace(questions=state.questions | {question}))
    if state.registry.restored == state.partitions[COORDINATOR].life:
        for question in state.questions:
            yield Step("labels", _answered(state, question))
    for answer in state.answers:
        after = state._replace(answers=state.answers - {answer})
        place, life, generation = answer.question
        if state.partitions[place].life == life:
            tell = Tell(place, generation, answer.version)
            after = told(cluster, after, tell, answer.run, is_dead=answer.is_dead)
        yield Step("label", after)


def _answered(state: State, question: Question) -> State:
    registry = state.registry
    is_current = question.generation == registry.generation
    run = registry.run if is_current and registry.is_open and registry.is_published else 0
    is_dead = question.generation < registry.generation
    return state._replace(
        questions=state.questions - {question},
        answers=state.answers | {Answer(question, state.version, run, is_dead)},
    )


def told(cluster: Cluster, state: State, tell: Tell, run: int, *, is_dead: bool) -> State:
    """Deliver to a partition the open run (0: none), or the end of the generation.

    What an ended run has left behind waits for the next run: the coordinator may have forgotten a
    seed.
    """
    place, generation, version = tell
    partition = state.partitions[place]
    context = partition.contexts[generation]
    if is_dead:
        dead = context._replace(is_dead=True, queue=frozenset(), label=0)
        return state.with_context(place, generation, dead)
    if version < context.known:
        return state
    if run == 0 and cluster.bug is Bug.LEFTOVERS_DROPPED:
        context = context._replace(queue=frozenset())
    labelled = context._replace(known=version, label=run, confirmed_in=partition.life)
    return state.with_context(place, generation, labelled)
