"""The plain values of a YAML text whose form is sound (runtime/yaml_tree.py has looked): what each scalar of it means."""

import math
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from runtime.yaml_tree import shown
from scenarios.schema.parts import FieldError, Steps


def values_of(text: str) -> tuple[Any, list[FieldError]]:  # Any: whatever YAML has
    """All of it, and each value of which nothing can be made. Names of fields are texts as they are written: `on` too."""
    loader = yaml.SafeLoader(text)
    errors: list[FieldError] = []
    try:
        node = loader.get_single_node()
        assert node is not None, "a text of which a tree was made has a node"
        return _value(loader, node, (), errors), errors
    finally:
        loader.dispose()


def _value(
    loader: yaml.SafeLoader, node: Node, path: Steps, errors: list[FieldError]
) -> Any:  # Any: as above
    if isinstance(node, MappingNode):
        loader.flatten_mapping(node)
        return {key.value: _value(loader, value, (*path, key.value), errors) for key, value in node.value}
    if isinstance(node, SequenceNode):
        return [_value(loader, item, (*path, number), errors) for number, item in enumerate(node.value)]
    assert isinstance(node, ScalarNode), node
    try:
        value = loader.construct_object(node)
    except (ValueError, OverflowError) as error:
        # Well-formed, and yet nothing: a date in month 13.
        errors.append(FieldError(path, f"{shown(node.value)} is no value: {error}"))
        return node.value
    if isinstance(value, float) and not math.isfinite(value):
        errors.append(FieldError(path, "it must be a finite number"))
    return value
