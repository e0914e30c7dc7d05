"""What does vLLM's own code make of the requests in ``vllm_bodies``?

Run it with the Python of vLLM, from the root of the checkout, and give it a model's folder (any
with a tokenizer; the weights are not read):

    PYTHONPATH=. PATH/TO/VLLM/bin/python tests/backends/record_vllm_prompts.py FOLDER

It writes ``recorded/vllm_prompts.json``: for each template, the texts that are tokenised, null
where the request is refused.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.backends.vllm_bodies import ALL, TEMPLATES

RECORDED = Path(__file__).parent / "recorded" / "vllm_prompts.json"


async def record(folder: str) -> dict[str, Any]:
    import vllm
    from vllm.config import DeviceConfig, ModelConfig, VllmConfig
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.entrypoints.serve.engine.protocol import ErrorResponse
    from vllm.renderers.online_renderer import OnlineRenderer
    from vllm.renderers.registry import renderer_from_config

    model = ModelConfig(model=folder, max_model_len=8192, dtype="float32")
    config = VllmConfig(model_config=model, device_config=DeviceConfig(device="cpu"))
    renderer = renderer_from_config(config)

    async def prompt(online: Any, body: Any) -> str | None:
        try:
            request = ChatCompletionRequest.model_validate(copy.deepcopy(body))
            rendered = await online.render_chat(request)
        except Exception:  # noqa: BLE001  (whatever is wrong, it is a refusal)
            return None
        if isinstance(rendered, ErrorResponse):
            return None
        _, (found,) = rendered
        text: str = found["prompt"]
        return text

    prompts = {}
    for name, template in TEMPLATES.items():
        online = OnlineRenderer(
            model,
            renderer,
            request_logger=None,
            chat_template=template,
            chat_template_content_format="auto",
            enable_auto_tools=True,
            tool_parser="hermes",
        )
        prompts[name] = [await prompt(online, body) for body in ALL]
    return {"by": f"vLLM {vllm.__version__}", "prompts": prompts}


if __name__ == "__main__":
    os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    found = asyncio.run(record(sys.argv[1]))
    RECORDED.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    os._exit(0)  # its threads would keep it
