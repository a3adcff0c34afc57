"""From annotations to schemas that agents can read, and from arguments to what the annotations promise."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, model_validator
from typing_extensions import TypedDict

from tools_app.sdk.checker import Checker
from tools_app.sdk.errors import InvalidArgumentsError
from tools_app.sdk.published import faults
from tools_app.sdk.schemas import MESSAGE, SchemaError
from tools_app.sdk.signatures import Number, Says, Signature, from_model, from_result, from_signature


class Ctx:
    """Replaces the context that tools receive."""


def signature(function: Any) -> Signature:
    found = from_signature(function, Ctx)
    assert faults(found.schema) == []
    return found


def properties(function: Any) -> dict[str, Any]:
    found: dict[str, Any] = signature(function).schema["properties"]
    return found


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Person(BaseModel):
    """Somebody."""

    name: str = Field(description="What they are called", title="Name!")
    age: int | None = None
    title: str = "Dr"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict):
    deep: NotRequired[bool]


class Node(BaseModel):
    value: int
    children: list[Node] = []


def test_a_function_without_parameters_takes_none() -> None:
    def tool() -> None: ...

    assert signature(tool).schema == {"type": "object", "properties": {}, "additionalProperties": False}


def test_types_become_schemas() -> None:
    def tool(
        text: str,
        number: Number,
        real: float,
        whole: int,
        yes: bool,
        choice: Literal["a", "b"],
        color: Color,
        day: datetime.date,
        moment: datetime.datetime,
        id: uuid.UUID,
        names: list[str],
        unique: set[int],
        free: dict[str, Any],
        counts: dict[str, int],
        anything: Any,
        point: Point,
        options: Options,
    ) -> None: ...

    assert properties(tool) == {
        "text": {"type": "string"},
        "number": {"type": "number"},
        "real": {"type": "number"},
        "whole": {"type": "integer"},
        "yes": {"type": "boolean"},
        "choice": {"type": "string", "enum": ["a", "b"]},
        "color": {"type": "string", "enum": ["red", "blue"]},
        "day": {"type": "string", "format": "date"},
        "moment": {"type": "string", "format": "date-time"},
        "id": {"type": "string", "format": "uuid"},
        "names": {"type": "array", "items": {"type": "string"}},
        "unique": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        "free": {"type": "object", "additionalProperties": True},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "anything": {},
        "point": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
            "required": ["x"],
            "additionalProperties": False,
        },
        "options": {"type": "object", "properties": {"deep": {"type": "boolean"}}, "additionalProperties": False},
    }
    assert signature(tool).schema["required"] == list(properties(tool))


def test_models_are_written_out_closed_and_without_titles_or_unions() -> None:
    def tool(person: Person) -> None: ...

    assert properties(tool)["person"] == {
        "description": "Somebody.",
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "What they are called"},
            "age": {"type": "integer"},
            "title": {"type": "string", "default": "Dr"},
        },
        "required": ["name"],
        "additionalProperties": False,
    }


def test_a_model_that_says_it_is_open_stays_open() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int = 0

    def tool(options: Open) -> None: ...

    tool.__annotations__["options"] = Open
    assert properties(tool)["options"]["additionalProperties"] is True


def test_none_makes_a_parameter_optional_but_not_nullable() -> None:
    def tool(a: str | None = None, b: Annotated[int | None, "How many"] = None) -> None: ...

    assert properties(tool) == {"a": {"type": "string"}, "b": {"type": "integer", "description": "How many"}}
    checker = Checker(signature(tool).schema)
    assert checker.problems({}) == []
    assert [problem.message for problem in checker.problems({"a": None})] == [
        "Invalid type for parameter a: expected string"
    ]


def test_defaults_are_published_as_json() -> None:
    def tool(
        a: int = 5,
        b: bool = False,
        color: Color = Color.BLUE,
        day: datetime.date = datetime.date(2024, 2, 29),
        names: tuple[str, ...] = ("x",),
        person: Person = Person(name="Ann"),  # noqa: B008 – what is tested
        price: Annotated[float, Field(ge=0)] = 0.5,
    ) -> None: ...

    assert {name: part["default"] for name, part in properties(tool).items()} == {
        "a": 5,
        "b": False,
        "color": "blue",
        "day": "2024-02-29",
        "names": ["x"],
        "person": {"name": "Ann", "title": "Dr"},
        "price": 0.5,
    }


class Renamed(BaseModel):
    from_: str = Field(alias="from")


def test_a_default_is_published_under_the_names_that_callers_use() -> None:
    def tool(span: Renamed = Renamed(**{"from": "here"})) -> None: ...  # noqa: B008 – what is tested

    assert properties(tool)["span"]["default"] == {"from": "here"}
    assert signature(tool).convert({"span": {"from": "there"}}) == {"span": Renamed(**{"from": "there"})}


def test_parts_that_describe_one_object_together_are_not_closed_one_by_one() -> None:
    both = {"type": "object", "allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {}}}]}
    either = {"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}}}]}

    def tool(both: Any, either: Any) -> None: ...

    tool.__annotations__.update(
        both=Annotated[Any, WithJsonSchema(both)], either=Annotated[Any, WithJsonSchema(either)]
    )
    checker = Checker(signature(tool).schema)
    assert checker.problems({"both": {"a": 1, "b": 2}, "either": {"b": 1}}) == []
    assert checker.problems({"both": {"a": "x"}, "either": {"b": 1}})
    assert checker.problems({"both": {}, "either": {"c": 1}})


def test_data_in_a_schema_is_left_alone() -> None:
    def tool(
        title: str = "title",
        default: dict[str, Any] = {"title": "x", "properties": {"a": 1}},  # noqa: B006 – what is tested
    ) -> None: ...

    assert properties(tool)["default"]["default"] == {"title": "x", "properties": {"a": 1}}
    assert properties(tool)["title"]["default"] == "title"


def test_text_in_an_annotation_is_the_description() -> None:
    def tool(
        city: Annotated[str, "Where", Field(min_length=1)], day: Annotated[str, Field(description="When")]
    ) -> None: ...

    assert properties(tool) == {
        "city": {"type": "string", "description": "Where", "minLength": 1},
        "day": {"type": "string", "description": "When"},
    }


def test_a_description_of_a_parameter_is_in_its_schema() -> None:
    def tool(id: Annotated[str, Field(min_length=1), Says("Workflow ID is required")]) -> None: ...

    assert from_signature(tool, Ctx).schema["properties"]["id"] == {
        "type": "string",
        "minLength": 1,
        MESSAGE: "Workflow ID is required",
    }


def test_a_recursive_type_keeps_its_reference() -> None:
    def tool(tree: Node) -> None: ...

    schema = signature(tool).schema
    assert schema["properties"]["tree"] == {"$ref": "#/$defs/Node"}
    assert schema["$defs"]["Node"]["additionalProperties"] is False
    assert Checker(schema).problems({"tree": {"value": 1, "children": [{"value": 2, "children": []}]}}) == []
    assert Checker(schema).problems({"tree": {"value": 1, "children": [{"valu": 2}]}})


def test_the_context_is_no_argument() -> None:
    def tool(a: int, ctx: Ctx) -> None: ...

    found = signature(tool)
    assert found.context_parameter == "ctx"
    assert list(found.schema["properties"]) == ["a"]


def test_a_keyword_of_python_can_be_a_parameter() -> None:
    def tool(
        from_: Annotated[str, Field(alias="from")] = "start", class_: Annotated[int, Field(alias="class")] = 1
    ) -> None: ...

    assert properties(tool) == {
        "from": {"type": "string", "default": "start"},
        "class": {"type": "integer", "default": 1},
    }
    assert signature(tool).convert({"from": "x"}) == {"from_": "x"}


def unannotated(a) -> None: ...
def positional(a: int, /) -> None: ...
def starred(*a: int) -> None: ...
def double_starred(**a: int) -> None: ...
def unknown_name(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def arbitrary_class(a: Ctx | None) -> None: ...
def two_contexts(a: Ctx, b: Ctx) -> None: ...
def field_as_default(a: int = Field(3, ge=1)) -> None: ...
def default_no_json(a: Any = object()) -> None: ...  # noqa: B008
def lookaround(a: Annotated[str, Field(pattern="(?=a)b")]) -> None: ...


REFUSED = [
    (unannotated, "parameter 'a' has no annotation"),
    (positional, "parameter 'a' must accept its argument by name"),
    (starred, "parameter 'a' must accept its argument by name"),
    (double_starred, "parameter 'a' must accept its argument by name"),
    (unknown_name, "cannot read the annotations: name 'Nowhere' is not defined"),
    (arbitrary_class, "cannot be expressed as JSON Schema: Unable to generate pydantic-core schema"),
    (two_contexts, "both 'a' and 'b' are a Ctx"),
    (field_as_default, r"parameter 'a': write Annotated\[..., Field\(...\)\], and its default after the `=`"),
    (default_no_json, "the default of 'a' cannot be expressed as JSON"),
    (lookaround, "cannot be expressed as JSON Schema: .*look-around"),
]


@pytest.mark.parametrize(("function", "reason"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_what_cannot_be_expressed_is_refused_on_one_line(function: Any, reason: str) -> None:
    with pytest.raises(SchemaError, match=f"^{reason}") as caught:
        from_signature(function, Ctx)
    assert "\n" not in str(caught.value)


def test_a_default_that_does_not_fit_is_found_when_the_schema_is_judged() -> None:
    def tool(a: Literal["x"] = "y", b: float = float("nan")) -> None: ...  # type: ignore[assignment]

    assert faults(from_signature(tool, Ctx).schema) == ["a: the default is not valid", "b: the default is not valid"]


class TestConversion:
    def test_gives_what_the_annotations_promise(self) -> None:
        def tool(
            color: Color,
            day: datetime.date,
            person: Person,
            point: Point,
            unique: set[int],
            price: Decimal,
            real: float,
        ) -> None: ...

        assert signature(tool).convert(
            {
                "color": "red",
                "day": "2024-02-29",
                "person": {"name": "Ann"},
                "point": {"x": 1},
                "unique": [1, 2],
                "price": "1.10",
                "real": 1,
            }
        ) == {
            "color": Color.RED,
            "day": datetime.date(2024, 2, 29),
            "person": Person(name="Ann"),
            "point": Point(1, 0),
            "unique": {1, 2},
            "price": Decimal("1.10"),
            "real": 1.0,
        }

    def test_leaves_out_what_was_left_out(self) -> None:
        def tool(a: str | None = None, b: int = 1) -> None: ...

        assert signature(tool).convert({}) == {}

    def test_keeps_integers_and_floats_apart_in_numbers(self) -> None:
        def tool(a: Number, b: Number) -> None: ...

        converted = signature(tool).convert({"a": 1, "b": 1.0})
        assert (type(converted["a"]), type(converted["b"])) == (int, float)

    def test_of_what_fits_the_schema_but_not_the_type_is_a_validation_error(self) -> None:
        def tool(day: datetime.date, dates: list[datetime.date]) -> None: ...

        with pytest.raises(InvalidArgumentsError) as caught:
            signature(tool).convert({"day": "2023-02-29", "dates": ["2024-01-01", "never"]})
        assert [problem.path for problem in caught.value.problems] == ["/day", "/dates/1"]
        assert caught.value.message.startswith("Invalid value for parameter day: Input should be a valid date")
        assert "2023-02-29" not in str(caught.value.as_dict())

    def test_tells_a_validators_own_words(self) -> None:
        def even(value: int) -> int:
            if value % 2:
                raise ValueError("must be even")
            return value

        def tool(n: Annotated[int, AfterValidator(even)]) -> None: ...

        tool.__annotations__["n"] = Annotated[int, AfterValidator(even)]
        with pytest.raises(InvalidArgumentsError, match=r"^Invalid value for parameter n: must be even$"):
            signature(tool).convert({"n": 3})


class TestModels:
    def test_describe_all_arguments_at_once(self) -> None:
        schema, convert = from_model(Person)
        assert schema["required"] == ["name"]
        assert schema["additionalProperties"] is False
        assert "description" not in schema
        assert convert({"name": "Ann"}) == Person(name="Ann")

    def test_can_be_dataclasses_and_typed_dicts(self) -> None:
        assert from_model(Point)[1]({"x": 1}) == Point(1)
        assert from_model(Options)[0]["properties"] == {"deep": {"type": "boolean"}}

    def test_can_be_recursive(self) -> None:
        schema, _ = from_model(Node)
        assert faults(schema) == []
        assert schema["properties"]["children"] == {"type": "array", "items": {"$ref": "#/$defs/Node"}, "default": []}

    def test_that_are_no_objects_are_refused(self) -> None:
        for model in (int, list[str], Literal["a"]):
            with pytest.raises(SchemaError, match=r"^does not describe an object$"):
                from_model(model)

    def test_can_relate_their_fields(self) -> None:
        class Range(BaseModel):
            low: int
            high: int

            @model_validator(mode="after")
            def ordered(self) -> Range:
                if self.low > self.high:
                    raise ValueError("low is above high")
                return self

        _, convert = from_model(Range)
        with pytest.raises(InvalidArgumentsError, match="low is above high"):
            convert({"low": 2, "high": 1})


class TestResults:
    def test_of_an_object_have_a_schema_that_accepts_null(self) -> None:
        def tool() -> Person: ...  # type: ignore[empty-body]

        schema = from_result(tool)
        assert schema is not None
        assert faults(schema) == []
        assert "additionalProperties" not in schema
        checker = Checker(schema)
        assert checker.accepts({"name": "Ann", "age": None, "title": "Dr"})
        assert checker.accepts(Person(name="Ann").model_dump())
        assert not checker.accepts({"name": 5})

    @pytest.mark.parametrize("annotation", [None, Any, str, dict, dict[str, int], list[str], "Nowhere", Ctx, int | str])
    def test_of_anything_else_have_none(self, annotation: Any) -> None:
        def tool(): ...

        tool.__annotations__["return"] = annotation
        assert from_result(tool) is None

    def test_that_are_not_annotated_have_none(self) -> None:
        assert from_result(lambda: None) is None
