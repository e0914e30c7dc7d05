"""In which ways does a chat template break the prefix although the messages only grew?

A template turns messages into text anew for each request, and some write old messages otherwise
once new ones follow. That is not the agent's fault; it can only be seen with the model's template.
"""

from __future__ import annotations

from kvagent.audit.rule import Rule

REWRITES = Rule(
    "KVA301",
    "template-rewrites-history",
    "error",
    "prefill",
    "The messages only grew, but the chat template renders old ones otherwise than before.",
    "The server renders all messages of each request anew. Some templates write a message in one "
    "way while it is the last of its kind and in another once more follow: they close a turn "
    "differently, trim white space, or join messages. Everything behind the first differing "
    "character is prefilled again, each time the same thing happens.",
    "Serve the model with a template that writes each message once and for all: vLLM and "
    "llama-server both take a file.",
    "vllm serve MODEL --chat-template fixed.jinja\n"
    "llama-server -m MODEL.gguf --jinja --chat-template-file fixed.jinja",
)

DATE = Rule(
    "KVA302",
    "date-in-template",
    "warning",
    "",
    "The chat template prints today's date into the head of the prompt.",
    "The date is no part of the messages: the template asks the server's clock. At midnight the "
    "head of every prompt changes, each conversation is prefilled anew, and what was cached for all "
    "of them is worth nothing. A long session that runs over midnight pays for it in its middle, "
    "and a conversation that is taken up the next day anyway.",
    "Pin the date for a conversation, or take it out of the template.",
    'extra_body={"chat_template_kwargs": {"date_string": first_day}}  # Llama 3, if it reads it\n'
    "VLLM_SYSTEM_START_DATE=2026-01-31 vllm serve openai/gpt-oss-120b",
)

TOOLS_LATE = Rule(
    "KVA303",
    "tools-rendered-late",
    "error",
    "prefill",
    "The chat template moves the tools to a later message as the conversation grows.",
    "Templates of older Mistral models write the tools right in front of the last user message. "
    "With each new user message they move there, and the prompt differs from the place where they "
    "stood before: nearly all of the history is prefilled again, each time a user says something.",
    "Serve the model with a template that writes the tools in the head (newer ones of the same "
    "maker do), or describe the tools in the system prompt.",
    "vllm serve MODEL --chat-template tools_in_head.jinja",
)

LATE_SYSTEM = Rule(
    "KVA304",
    "late-system-message",
    "note",
    "",
    "A system or developer message stands in mid-history.",
    "What becomes of it depends on the chat template: some write it where it stands, Qwen3.5 and "
    "Mistral refuse the request, DeepSeek's put all system text at the head, and vLLM does that with "
    "developer messages where the template does not know the role. A head that changes costs the "
    "whole prefix. With the model's template (--template) kvagent sees what happens.",
    "Say it at the end of the newest user message or tool result: that is safe with every template.",
    'messages[-1]["content"] += f"\\n\\n<reminder>{text}</reminder>"',
)

REFUSED = Rule(
    "KVA305",
    "template-refuses",
    "warning",
    "",
    "The chosen server or its chat template refuses the request.",
    "A template can raise an error: at a system message that is not the first, at two user messages "
    "in a row, at a tool call without result. And each server checks requests before it renders "
    "them. The request then fails with status 400 (500 in some versions). Its tokens are estimated "
    "in this report.",
    "Send messages as the template takes them, which its own words mostly tell, or serve another "
    "template.",
)

REASONING = Rule(
    "KVA306",
    "reasoning-stripped-by-template",
    "warning",
    "prefill",
    "The chat template leaves out the reasoning of earlier turns once a user message follows.",
    "Many models that think (Qwen3, GLM, DeepSeek, MiniMax, gpt-oss, ...) are trained to see their "
    "reasoning within the current loop of tool calls, and not that of finished ones. So at each new "
    "user message the prompt differs from the first answer of the finished loop on, and the whole "
    "loop is prefilled once more. One such prefill for each user message is what these models cost; "
    "a user message in the middle of a loop adds one.",
    "Keep the reasoning where the template has a switch for it; else put reminders into tool "
    "results and not into user messages, so that the loop does not end.",
    'extra_body={"chat_template_kwargs": {"preserve_thinking": True}}  # the name varies by model',
)

SYSTEM_MOVED = Rule(
    "KVA307",
    "system-moved-by-template",
    "error",
    "prefill",
    "The chat template moves system text to another place as the conversation grows.",
    "Some templates put all system messages together at the head, so a late one rewrites the head; "
    "others write the system prompt into the last user message, and it moves on with each new one. "
    "Everything behind that place is prefilled again.",
    "Send one system message, at the beginning, and say what is new at the end of the newest user "
    "message or tool result.",
    'messages[-1]["content"] += f"\\n\\n<reminder>{text}</reminder>"',
)

RULES = (REWRITES, DATE, TOOLS_LATE, LATE_SYSTEM, REFUSED, REASONING, SYSTEM_MOVED)
