"""In which ways does the head of a prompt, its tools and system messages, not stay as it was?"""

from __future__ import annotations

from kvagent.audit.rule import Rule

CLOCK = Rule(
    "KVA101",
    "clock-in-head",
    "error",
    "prefill",
    "The system prompt tells the time or the day, and it is another one each time.",
    "A server reuses its cache up to the first token that differs. The system prompt stands in "
    "front of everything, so one digit of a clock makes it prefill all that follows: the rest of "
    "the instructions, with most templates the tools, and the whole history, however long it has "
    "become. A clock that shows seconds does so with every request, a date once a day and in every "
    "conversation.",
    "Take the clock out of the system prompt and say the time at the end of the newest user "
    "message, and only when the model needs it.",
    """\
# before: system = f"Current time: {now}\\n{INSTRUCTIONS}"
messages[0] = {"role": "system", "content": INSTRUCTIONS}
messages.append({"role": "user", "content": f"{question}\\n\\nCurrent time: {now}"})""",
)

ID = Rule(
    "KVA102",
    "id-in-head",
    "error",
    "prefill",
    "An id in the system prompt is made anew from request to request.",
    "A request id, session id, uuid, commit hash or billing header tells the model nothing, yet "
    "each new value breaks the prefix where it stands, and the history behind it is prefilled "
    "again. Some agents put such a line in front of the whole system prompt, where it costs most: "
    "x-anthropic-billing-header of Claude Code is one, which vLLM takes out and others do not.",
    "Send the id as an HTTP header or as metadata of the request, not as text of the prompt.",
    """\
client.chat.completions.create(
    messages=messages,  # without the id
    extra_headers={"X-Request-Id": request_id},
)""",
)

EDITED = Rule(
    "KVA103",
    "head-edited",
    "error",
    "prefill",
    "The system prompt is not the one that was sent before.",
    "Everything behind the first changed character is prefilled again: the rest of the system "
    "prompt, with most templates the tools, and all messages. Typical texts that change there are "
    "memories and notes, a list of open files, the working directory, a to-do list, the number of "
    "tokens that are left, or skills that were loaded. The further in front such text stands, the "
    "more is lost with each change.",
    "Leave the system prompt as it was first sent and tell what is new at the end of the newest "
    "message; what must change in the head belongs behind all that does not.",
    """\
system = f"{INSTRUCTIONS}\\n{SKILLS}"  # what never changes, and nothing else
messages.append({"role": "user", "content": f"{question}\\n\\n<memory>{memory}</memory>"})""",
)

REORDERED = Rule(
    "KVA104",
    "tools-reordered",
    "error",
    "prefill",
    "The same tools come in another order.",
    "Templates write the tools in the order of the request, in front of the messages. Another "
    "order is another text from the first tool that moved on, so all of the history is prefilled "
    "again. It comes from sets and maps without an order, from MCP servers that list their tools "
    "as they please, and from asking several of them at the same time.",
    "Sort the tools by name, or keep the list that was sent first and send it again.",
    'tools = sorted(tools, key=lambda tool: tool["function"]["name"])',
)

KEY_ORDER = Rule(
    "KVA105",
    "schema-key-order",
    "error",
    "prefill",
    "A tool's schema is the same, but its keys come in another order.",
    "vLLM and llama.cpp hand the parameters of a tool to the template with their keys in the order "
    "of the request. The same schema in another order means the same and is another text: the "
    "prefix ends there. It comes from schemas that are built from sets or unordered maps, or read "
    "back from a store that sorts keys, such as JSONB.",
    "Make each schema once, when the program starts, and send the same object with every request.",
    """\
TOOLS = json.loads(json.dumps(make_tools(), sort_keys=True))  # once, then never again""",
)

TOOLS_CHANGED = Rule(
    "KVA106",
    "tools-changed",
    "error",
    "prefill",
    "Tools were added, removed or described otherwise within a conversation.",
    "The definitions of all tools stand in front of the messages, so each change among them makes "
    "the server prefill the whole history again. Agents do this when they offer other tools in "
    "each mode or step, load tools when they are first wanted, or connect to an MCP server late.",
    "Offer all tools from the first request on, and let the result of a call say what is not "
    "allowed yet.",
    """\
# the same list in every mode, the mode decides when the tool is called
def run(call, mode):
    if call.name not in ALLOWED[mode]:
        return f"{call.name} cannot be used in {mode} mode." """.rstrip(),
)

RESERIALISED = Rule(
    "KVA107",
    "head-reserialised",
    "warning",
    "prefill",
    "The system prompt has the same text in another form: a string, or a list of text parts.",
    "Both servers join text parts with a newline before most templates see them, so that mostly "
    "nothing is lost. A template that goes through the parts itself joins them otherwise, and a "
    "part border that moves is then another text. It comes from two code paths that write the same "
    "prompt, or from a framework that converts messages on the way.",
    "Write the system prompt in one form, best as one string, in every request.",
    'messages[0] = {"role": "system", "content": "\\n".join(part["text"] for part in parts)}',
)

OPTIONS = Rule(
    "KVA108",
    "options-changed",
    "warning",
    "prefill",
    "An option that shapes the prompt is not what it was in the request before.",
    "chat_template_kwargs and reasoning_effort are variables of the chat template, and documents "
    "are rendered in front of the messages: another value may be another text at the very "
    "beginning of the prompt, or only at its end. Without the model's template that cannot be "
    "seen, and the cost is counted as none; --template and --tokenizer tell. Sampling options, "
    "response_format and tool_choice are not looked at: as the servers come, nearly every model's "
    "prompt is the same with any of them.",
    "Choose these options once for a conversation and leave them.",
    """\
OPTIONS = {"chat_template_kwargs": {"enable_thinking": False}}
client.chat.completions.create(messages=messages, extra_body=OPTIONS)  # every time""",
)

DIFFERS = Rule(
    "KVA109",
    "head-differs-between-conversations",
    "warning",
    "prefill",
    "Conversations of one agent begin with heads that differ in nothing but a clock, an id, or the "
    "order of their tools.",
    "All conversations of an agent could share the cache of its tools and system prompt, also "
    "across users and processes: it is computed once and only read from then on. Text that each "
    "conversation has of its own ends what they share at that place. The cost is the head of each "
    "new conversation, which is time to the first token, and the memory that each copy takes.",
    "Keep clocks and ids out of the head: tell them in the first user message.",
    """\
messages = [
    {"role": "system", "content": INSTRUCTIONS},
    {"role": "user", "content": f"Session {session_id}, {today}.\\n\\n{task}"},
]""",
)

SWITCHED = Rule(
    "KVA110",
    "agent-switched",
    "note",
    "prefill",
    "The conversation goes on under another system prompt and other tools, as with a hand-off.",
    "Another agent took over and was sent the history of the one before. Its head is another one, "
    "so that nothing of the history can come from the cache. This is mostly meant so; it is worth "
    "a thought where agents hand over to each other again and again.",
    "Hand over what the next agent needs to know and not the whole history, or let one agent with "
    "one head play all parts.",
)

RULES = (
    CLOCK,
    ID,
    EDITED,
    REORDERED,
    KEY_ORDER,
    TOOLS_CHANGED,
    RESERIALISED,
    OPTIONS,
    DIFFERS,
    SWITCHED,
)
