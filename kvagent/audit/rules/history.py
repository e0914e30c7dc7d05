"""In which ways do the messages that were sent before not stay as they were?"""

from __future__ import annotations

from kvagent.audit.rule import Rule

ARGUMENTS = Rule(
    "KVA201",
    "arguments-reserialised",
    "error",
    "prefill",
    "The arguments of an old tool call come back as another text of the same JSON.",
    "The arguments of a call are a string that the model generated. An agent that parses it and "
    "writes it again changes blanks, escapes or the order of the keys. Most chat templates write "
    "arguments anew, so that blanks are lost on the way, but the order of keys always reaches the "
    "prompt, and with gpt-oss on vLLM every character does. All messages behind the call are then "
    "prefilled again. It comes from json.loads and json.dumps in a message class, from sort_keys, "
    "and from stores such as JSONB that keep keys in an order of their own.",
    "Keep the string of arguments as the model wrote it, and parse a copy to run the tool.",
    """\
arguments = json.loads(call.function.arguments)  # to run the tool
messages.append(message.model_dump(exclude_none=True))  # the very string goes back""",
)

RESERIALISED = Rule(
    "KVA202",
    "message-reserialised",
    "error",
    "prefill",
    "An old message means the same and is written otherwise.",
    "What a tool gave as JSON comes back with other blanks or another order of keys, or a text "
    "comes back as a list of parts where the template shows the difference. For the server it is "
    "another text, and everything behind it is prefilled again. Mostly a framework or a store "
    "takes messages apart and builds them again on the way.",
    "Keep the messages that were sent as they are, in one list, and only append to it.",
)

EDITED = Rule(
    "KVA203",
    "message-edited",
    "error",
    "prefill",
    "A message in the history is not the one that was sent before.",
    "A server reuses its cache up to the first token that differs, so an edit in an old message "
    "makes it prefill everything from there on. Typical edits: a clock or state in the first user "
    "message that is rendered anew each time, a status line that is updated, a result that is "
    "shortened once it is no longer the newest, an answer that is trimmed or cleaned.",
    "Leave what was sent as it was sent and append what is new; shorten a result before it is sent "
    "for the first time.",
    """\
messages.append({"role": "tool", "tool_call_id": call.id, "content": shorten(result)})
# and from then on it stays as it is""",
)

REMOVED = Rule(
    "KVA204",
    "messages-removed",
    "error",
    "prefill",
    "Messages in the middle of the history were left out.",
    "Everything behind the gap moves forward and is prefilled again, although each message of it "
    "was computed before. It pays only where much is removed at once and the conversation goes on "
    "for long. Typical are failed attempts that are dropped, results that are deleted, and clean-"
    "up of messages that were only meant for one turn.",
    "Leave messages where they are, or remove many at once and rarely, when the window asks for "
    "it.",
    """\
from kvagent import Clear, Policy

policy = Policy(clear=Clear(clear_at_least=8_000))  # a batch frees that much, or is not made""",
)

WINDOW = Rule(
    "KVA205",
    "sliding-window",
    "error",
    "prefill",
    "The oldest messages leave turn after turn, so that no request begins as the one before.",
    "A history that is cut to the last n messages, or to n tokens, loses a little in front each "
    "time something is added behind. From the turn on in which it is full, the server finds only "
    "the system prompt in its cache and prefills the whole window with every request: about the "
    "most expensive way to keep a prompt short. To clear the oldest result with every new one is "
    "the same.",
    "Cut rarely and much: let the history grow to a high mark, then go down to half of it at once, "
    "and keep what is left until the mark is reached again.",
    """\
# before, in each turn: messages = [system, *history[-20:]]
if tokens(messages) > 0.8 * window:
    del history[: older_half(history)]  # rarely, and much""",
)

INSERTED = Rule(
    "KVA206",
    "message-inserted",
    "error",
    "prefill",
    "A message was put into the middle of the history.",
    "What stands behind the new message is sent again and prefilled again, for it comes after "
    "other tokens than before. Typical are retrieved documents in front of the last question, "
    "reminders in front of old turns, and results that arrive late and are sorted in at their "
    "call.",
    "Append it: what belongs to an earlier turn can say so in its text.",
    'messages.append({"role": "user", "content": f"<documents>{found}</documents>\\n{question}"})',
)

MOVED = Rule(
    "KVA207",
    "moved-text",
    "error",
    "prefill",
    "Text left an old message and came back in a newer one.",
    "A reminder that is always put at the end of the newest message is taken out of the one that "
    "had it before. That message is not what was sent then, and everything from it on is prefilled "
    "again: with a tag such as <system-reminder> that is one turn's worth of prefill in each turn.",
    "Leave the old text where it was sent, and give it again in the newest message only when it "
    "says something new. Documents that are longer than the answers behind them may leave: give "
    "them behind the question, so that the question stays cached.",
    """\
if reminder != last_reminder:
    question += f"\\n<system-reminder>{reminder}</system-reminder>"
    last_reminder = reminder
messages.append({"role": "user", "content": question})""",
)

REASONING = Rule(
    "KVA208",
    "reasoning-dropped",
    "error",
    "prefill",
    "The reasoning of an old answer was sent before and is not sent any more.",
    "While the model calls tools, most templates for reasoning models render the reasoning of the "
    "steps since the last user message. If it is sent with one request and not with the next, the "
    "answer is another text and everything from it on is prefilled again. Many templates drop the "
    "reasoning of earlier turns themselves once a new user message comes; then it costs nothing "
    "more that the client does so too.",
    "Send the reasoning of each answer again as it came, under the name that the server takes.",
    """\
reply = response.choices[0].message
messages.append({
    "role": "assistant",
    "content": reply.content,
    "reasoning": reply.reasoning,  # vLLM; llama.cpp: reasoning_content
})""",
)

IDS = Rule(
    "KVA209",
    "ids-changed",
    "warning",
    "prefill",
    "The ids of old tool calls were made anew.",
    "Most chat templates do not show the ids of calls, and then nothing is lost. Those of Mistral "
    "and Kimi do: there the prefix ends at the first id that is another one. It comes from a "
    "framework that makes ids when it converts messages, and not when the call comes back.",
    "Keep the id that the server gave a call, in the call and in its result.",
    'messages.append({"role": "tool", "tool_call_id": call.id, "content": result})',
)

COMPACTED = Rule(
    "KVA210",
    "history-compacted",
    "note",
    "prefill",
    "Old messages were replaced by a summary, or old results by short stubs.",
    "This is usually meant: the prompt gets shorter, and each later turn is cheaper for it. Once "
    "it costs what is left behind the first change, which is prefilled again, and the request for "
    "the summary. It is cheap where it is rare and frees much at once.",
    "Compact rarely, early enough, and much at once, and keep the head as it is.",
)

RULES = (
    ARGUMENTS,
    RESERIALISED,
    EDITED,
    REMOVED,
    WINDOW,
    INSERTED,
    MOVED,
    REASONING,
    IDS,
    COMPACTED,
)
