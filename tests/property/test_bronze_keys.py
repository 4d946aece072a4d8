"""For all values: what a template renders is legal for its target."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from tardis_machine.bronze.cases import PayloadCase, find_case
from tardis_machine.bronze.keys import (
    EVENT_HUBS_KEY,
    KINESIS_KEY,
    NAME,
    PLACEHOLDERS,
    SUBJECT,
    compile_template,
)
from tardis_machine.bronze.series import Origin, Series

patient = settings(deadline=None)

series = st.builds(
    Series,
    case=st.sampled_from(PayloadCase),
    exchange=st.text(),
    symbol=st.text() | st.text(min_size=250, max_size=300),
    name=st.text(),
    source=st.text(),
    origin=st.sampled_from(Origin),
    meta=st.dictionaries(st.sampled_from(("request_id", "route")), st.text()),
)
placeholders = st.sampled_from((*PLACEHOLDERS, "meta.request_id", "meta.absent"))
templates = st.lists(placeholders.map(lambda name: f"{{{{{name}}}}}"), min_size=1, max_size=5)


@patient
@given(templates, series)
def test_subject_has_one_token_per_placeholder(parts: list[str], one: Series) -> None:
    subject = compile_template(".".join(parts), "nats-subject-template", SUBJECT).render(one)
    tokens = subject.split(".")
    assert len(tokens) == len(parts)
    assert all(re.fullmatch(r"[^\s*>\x00-\x1f\x7f]+", token) for token in tokens)


@patient
@given(templates, series)
def test_name_has_only_letters_of_its_alphabet(parts: list[str], one: Series) -> None:
    name = compile_template("".join(parts), "kafka-topic-template", NAME).render(one)
    assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
    assert name not in (".", "..")


@patient
@given(templates, series)
def test_keys_have_the_length_their_bus_allows(parts: list[str], one: Series) -> None:
    text = "|".join(parts)
    kinesis = compile_template(text, "kinesis-partition-key-template", KINESIS_KEY).render(one)
    assert 1 <= len(kinesis) <= 256
    hubs = compile_template(text, "event-hubs-partition-key-template", EVENT_HUBS_KEY).render(one)
    assert 1 <= len(hubs) <= 128


@patient
@given(st.sampled_from(PayloadCase), st.data())
def test_any_spelling_of_a_case_is_found(case: PayloadCase, data: st.DataObject) -> None:
    words = case.value.split("_")
    shaped = [data.draw(st.sampled_from((word, word.upper(), word.title()))) for word in words]
    joint = data.draw(st.sampled_from(("", "_", "-", " ")))
    assert find_case(joint.join(shaped)) is case
