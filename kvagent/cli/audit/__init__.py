"""What does a recorded session waste, why, and what would help?"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kvagent.cli.failure import Failure
from kvagent.cli.server_options import APIKey
from kvagent.cli.whole_file import STANDARD

if TYPE_CHECKING:
    from kvagent.audit.counting import Counting
    from kvagent.audit.session import Report
    from kvagent.audit.settings import Settings
    from kvagent.cli.audit.output import Output

_NAMED = 3

# As in kvagent.audit.formats, which help need not import.
FORMATS = (
    "anthropic, cassette, claude_code, claude_web, codex, har, inspect, langchain, langfuse, "
    "litellm, mini_swe, mooncake, openai_chat, openai_functions, openai_responses, openhands, "
    "openhands_sdk, otlp, pi, swe_agent, tau_bench, toolbench, weka"
)


def audit(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|DIR|-...",
            help="Transcripts or logs of requests, packed or not; of a folder all that are in it; "
            "- is standard input.",
        ),
    ],
    format: Annotated[
        str | None,
        typer.Option("--from", metavar="NAME", help=f"Their format, unless recognised: {FORMATS}."),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|URL",
            help="Whose tokens are counted: a GGUF file, a Hugging Face folder, or a running vLLM "
            "or llama.cpp, http://HOST:PORT/v1. Without it, tokens are estimated.",
        ),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Another chat template than the model's own."),
    ] = None,
    api_key: APIKey = None,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="vllm|llama.cpp",
            help="For which server cached tokens are predicted. Else that of the URL, llama.cpp "
            "for a GGUF file, and vLLM.",
        ),
    ] = None,
    block_size: Annotated[
        int | None, typer.Option(metavar="TOKENS", help="vLLM's --block-size; 16.")
    ] = None,
    blocks: Annotated[
        int | None, typer.Option(metavar="N", help="How many blocks vLLM's cache has; no end.")
    ] = None,
    capacity: Annotated[
        int | None, typer.Option(metavar="TOKENS", help="The same in tokens.")
    ] = None,
    slots: Annotated[
        int | None, typer.Option(metavar="N", help="llama.cpp's --parallel; 1.")
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            metavar="TOKENS", help="Of a prompt and its answer, for llama.cpp those of a slot."
        ),
    ] = None,
    kv_model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Weighs the KV cache: a name, folder or file as for size. Else the tokenizer's.",
        ),
    ] = None,
    kv_dtype: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Its data type: f16, fp8, q8_0, ...")
    ] = None,
    tp: Annotated[
        int | None, typer.Option(metavar="N", help="Ranks of tensor parallelism.")
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULES",
            help="Look for these rules only: codes, beginnings of codes (KVA1), names; with commas "
            "between them.",
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="RULES", help="Leave these out.")
    ] = None,
    what_if: Annotated[
        bool | None,
        typer.Option(
            "--what-if/--no-what-if",
            help="Send the same session through kvagent, too; done anyway up to 64 MiB.",
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With this policy, TOML or JSON as for rewrite."),
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="error|warning|note|RULES",
            help="Exit with 1 if there is such a finding, or a worse one.",
        ),
    ] = None,
    min_hit_rate: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Exit with 1 if the server would take less from its cache, over all files: 90% or "
            "0.9.",
        ),
    ] = None,
    max_prompt_tokens: Annotated[
        int | None, typer.Option(metavar="TOKENS", help="Exit with 1 if a prompt is longer.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Exit with 1 only for what is worse than this file says."
        ),
    ] = None,
    write_baseline: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write down how it is now, for --baseline.")
    ] = None,
    output_format: Annotated[
        str | None,
        typer.Option(
            metavar="terminal|json|html|md|sarif|github",
            help="How the report is written; else as the name of --output says.",
        ),
    ] = None,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="Where the report goes."),
    ] = STANDARD,
    details: Annotated[
        bool | None,
        typer.Option("--details/--no-details", "-v", help="Tell every finding at length."),
    ] = None,
    redact: Annotated[
        bool | None,
        typer.Option("--redact/--no-redact", help="Put stand-ins of as many tokens for all texts."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where the settings are, instead of [tool.kvagent.audit] in the nearest "
            "pyproject.toml; options go before them.",
        ),
    ] = None,
    isolated: Annotated[bool, typer.Option("--isolated", help="Read no settings.")] = False,
) -> None:
    """Say what recorded sessions waste, why, and what kvagent would make of them.

    The exit status is 0, or 1 when a condition does not hold that was set (--fail-on and the like), or 2 when
    something that was named could not be read: the report of everything else is written all the same.
    """
    given: dict[str, Any] = {
        "format": format,
        "tokenizer": tokenizer,
        "template": template,
        "server": server,
        "block_size": block_size,
        "blocks": blocks,
        "capacity": capacity,
        "slots": slots,
        "window": window,
        "kv_model": kv_model,
        "kv_dtype": kv_dtype,
        "tp": tp,
        "select": select,
        "ignore": ignore,
        "what_if": what_if,
        "fail_on": fail_on,
        "min_hit_rate": min_hit_rate,
        "max_prompt_tokens": max_prompt_tokens,
        "baseline": baseline,
        "output_format": output_format,
        "details": details,
        "redact": redact,
    }
    from kvagent.audit.settings import SettingsError
    from kvagent.cli.audit.output import Output

    try:
        settings = _settings(given, config, isolated=isolated)
        if settings.redact and write_baseline is not None:
            raise Failure("a baseline names tools and labels: leave --redact out to write one")
        usual = settings.output_format
        with Output(output_format, usual, output, write_baseline, sources) as out:
            counting = _counting(settings, api_key)
            report = _audited(sources, settings, counting, policy)
            if settings.redact:
                from kvagent.audit.redact import redacted

                report = redacted(report, counting.prompts().count)
            _say_what_was_not_read(report, out, sources)
            out.write(report, details=settings.details)
    except SettingsError as error:
        raise Failure(str(error)) from error
    if report.failed:
        raise typer.Exit(2)
    if any(gate.failed for gate in report.gates):
        raise typer.Exit(1)


def _settings(given: dict[str, Any], config: Path | None, *, isolated: bool) -> Settings:
    from kvagent.audit.settings import Settings, settings_of

    if isolated and config is not None:
        raise Failure("--isolated reads no settings, --config names some: give one of them")
    return (Settings() if isolated else settings_of(config)).merged(**given)


def _counting(settings: Settings, api_key: str | None) -> Counting:
    """The model's files, or the running server whose URL was given."""
    from kvagent.audit.counting import counting_of, is_url

    url = settings.tokenizer
    if url is None or not is_url(url):
        return counting_of(settings)
    from kvagent.audit.served import served
    from kvagent.cli.connection import connect
    from kvagent.cli.doctor.rendering import profile_server

    connection = connect(url, api_key)
    return served(settings, connection.api, connection.run, profile_server)


def _audited(
    sources: Sequence[str], settings: Settings, counting: Counting, policy: Path | None
) -> Report:
    from kvagent.audit.files import files_of
    from kvagent.audit.run import audit_files
    from kvagent.cli.policy_file import read_policy
    from kvagent.cli.progress import progress

    chosen = None if policy is None else read_policy(policy)
    size = _size([file.path for file in files_of(sources)])
    with progress("auditing", size) as screen, _loaded():
        advance: Callable[[int], None] = screen.advance
        return audit_files(sources, settings, counting=counting, policy=chosen, advance=advance)


@contextmanager
def _loaded() -> Iterator[None]:
    """What is loaded by now stays, so the garbage collector need not look at it again and again."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _size(paths: Sequence[str]) -> int | None:
    """Bytes to come, for the progress bar; None where nobody knows."""
    try:
        return sum(Path(path).stat().st_size for path in paths) or None
    except (OSError, ValueError):
        return None  # a pipe; or opening it will say why


def _say_what_was_not_read(report: Report, out: Output, sources: Sequence[str]) -> None:
    """Raises ``Failure`` if that is everything."""
    from kvagent.cli.audit.output import one_line, say

    over, told = report.passed_over, ""
    if over:
        names = ", ".join(over[:_NAMED])
        more = f" and {len(over) - _NAMED} more" if len(over) > _NAMED else ""
        files = (
            "1 file is no transcript" if len(over) == 1 else f"{len(over)} files are no transcripts"
        )
        told = f"{files}: {names}{more}"
    if not report.sessions:
        why = [failed.why for failed in report.failed]
        if len(why) == 1:
            raise Failure(one_line(why[0]))
        if why:
            raise Failure(one_line(f"none of {len(why)} files can be read; the first: {why[0]}"))
        where = ", ".join(sources)
        raise Failure(one_line(f"there is no transcript in {where}{told and f'; {told}'}"))
    if told:
        say(told)
    if not out.is_seen:
        for failed in report.failed:
            say(failed.why)
