"""The platform's interface as value classes, and their conversion to and from bytes. No I/O.

Read the modules in this order. `ids`, `content`, `markup` and `forms` define the values that events and
operations consist of. `events` defines the events that the platform posts. `operations` and `results` define
the requests and their answers; `traits` defines the common properties of a class's operations. `encode` and
`decode` convert all these values to and from bytes; `json_text` has the JSON readers. triobot loads the last
two modules only to emulate the platform: `platform_side` has the encoders and decoders of the platform's
side, and `undocumented` has the operations outside the interface.

Docstrings cite each gap of the interface by its number in `docs/gaps.md`, which also gives triobot's choice.

No function here waits, reads a clock or opens a file.
"""
