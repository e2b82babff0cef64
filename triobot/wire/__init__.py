"""The platform's interface as value classes, and their conversion to and from bytes. No I/O.

Read the modules in this order. `ids`, `content`, `markup` and `forms` define the values that events and
operations consist of. `events` defines the events that the platform posts. `operations` and `results` define
the requests and their answers; `traits` defines the common properties of a class's operations. `encode` and
`decode` convert all these values to and from bytes; `json_text` has the JSON readers. No bot loads the last
two modules: `platform_side` has the encoders and decoders of the platform's side, and `undocumented` has the
operations outside the interface.

Docstrings cite gaps of the interface by number: `docs/gaps.md` lists each gap and triobot's choice.

No function here waits, reads a clock or opens a file.
"""
