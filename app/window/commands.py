"""The table of commands; menus, shortcuts and the palette are made from it."""

from app.fetch import bundled
from app.language import mark, tr
from app.views.token.token import TokenView
from app.widgets.commands import Command
from app.window.desk import (
    Desk,
    new_chat,
    rename_chat,
    search_chats,
    shown_pictures,
    undo_delete,
)
from app.window.edit_commands import EDITS
from app.window.view_commands import LAYERS, VIEW


def _has_word(w: Desk) -> bool:
    return w.bench.token.word is not None


TOKEN: tuple[Command[Desk], ...] = (
    Command(
        id="token.live",
        title=tr("Inspect tokens live"),
        words="follow watch",
        run=lambda w: w.bench.token.toggle_live(),
        menu="View",
        key="Ctrl+L",
        checked=lambda w: w.bench.token.live,
    ),
    Command(
        id="token.before",
        title=tr("Inspect the previous token"),
        run=lambda w: w.bench.token.step(-1),
        enabled=_has_word,
    ),
    Command(
        id="token.after",
        title=tr("Inspect the next token"),
        run=lambda w: w.bench.token.step(1),
        enabled=_has_word,
    ),
    Command(
        id="token.lens",
        title=tr("Read layers with a lens from a file…"),
        words="jacobian tuned lens safetensors",
        run=lambda w: w.inspector.view(TokenView).choose_lens(),
        enabled=_has_word,
    ),
    Command(
        id="token.logit_lens",
        title=tr("Read layers with the logit lens"),
        run=lambda w: w.bench.token.use_lens(""),
        enabled=lambda w: bool(w.bench.token.questions_of_chat.lens_file),
    ),
    Command(
        id="token.text",
        title=tr("Copy the token's details as text"),
        run=lambda w: w.inspector.view(TokenView).copy_text(),
        enabled=_has_word,
    ),
)


MENUS = (
    *(mark("Model"), mark("Chat"), mark("Edits"), mark("View"), mark("Layers"), mark("Window")),
)


def _has_draft(w: Desk) -> bool:
    return _has_model(w) and bool(w.bench.session.options.model_draft)


def _has_adapter(w: Desk) -> bool:
    return _has_model(w) and bool(w.bench.session.options.lora)


def _has_model(w: Desk) -> bool:
    return w.bench.session.model is not None


def _has_path(w: Desk) -> bool:
    return w.bench.session.path is not None


def _has_chat(w: Desk) -> bool:
    return w.bench.chat.chat_id is not None


def _has_messages(w: Desk) -> bool:
    return bool(w.bench.chat.path)


def _theme(choice: str, title: str) -> Command[Desk]:
    return Command(
        id=f"theme.{choice}",
        title=title,
        words="appearance mode colours colors",
        run=lambda w: w.bench.preferences.update(theme=choice),
        checked=lambda w: w.bench.preferences.value.theme == choice,
    )


COMMANDS: tuple[Command[Desk], ...] = (
    Command(
        id="model.open",
        title=tr("Choose a model…"),
        words="load switch change select browse find search hub hugging face",
        run=lambda w: w.sheets.show_chooser(),
        menu="Model",
        key="Ctrl+O",
        icon="model",
    ),
    Command(
        id="model.open_file",
        title=tr("Open a GGUF file…"),
        words="load import",
        run=lambda w: w.opener.choose_file(),
        menu="Model",
        key="Ctrl+Shift+O",
        icon="folder",
    ),
    Command(
        id="model.server",
        title=tr("Add a server…"),
        words="connect connection endpoint remote api address",
        run=lambda w: w.sheets.add_server(),
        menu="Model",
        icon="link",
    ),
    Command(
        id="model.serve",
        title=tr("Start API server…"),
        words="server api http openai anthropic ollama listen port key",
        run=lambda w: w.sheets.show_serving(),
        menu="Model",
        icon="upload",
    ),
    Command(
        id="model.file",
        title=tr("About the model: metadata, tensors, tokenizer…"),
        words="details properties information header vocabulary",
        run=lambda w: w.sheets.show_file(),
        menu="Model",
        key="Ctrl+I",
        icon="info",
        enabled=_has_path,
    ),
    Command(
        id="model.vision",
        title=tr("Choose a vision file (mmproj)…"),
        words="image picture projector see",
        run=lambda w: w.vision.choose_file(),
        menu="Model",
        icon="eye",
        enabled=_has_model,
    ),
    Command(
        id="model.draft",
        title=tr("Choose a draft model…"),
        words="speculation speculative guess faster small",
        run=lambda w: w.opener.choose_draft(),
        menu="Model",
        icon="model",
        enabled=_has_model,
    ),
    Command(
        id="model.no_draft",
        title=tr("Remove the draft model"),
        words="speculation speculative guess",
        run=lambda w: w.opener.remove_draft(),
        menu="Model",
        enabled=_has_draft,
    ),
    Command(
        id="model.adapter",
        title=tr("Add a LoRA adapter…"),
        words="lora fine-tune adapter style",
        run=lambda w: w.opener.choose_adapter(),
        menu="Model",
        icon="model",
        enabled=_has_model,
    ),
    Command(
        id="model.no_adapter",
        title=tr("Remove the LoRA adapters"),
        words="lora fine-tune adapter",
        run=lambda w: w.bench.remove_adapters(),
        menu="Model",
        enabled=_has_adapter,
    ),
    Command(
        id="model.get",
        title=tr("Download SmolLM2"),
        words="get fetch install",
        run=lambda w: w.opener.get(),
        menu="Model",
        icon="download",
    ),
    Command(
        id="model.demo",
        title=tr("Try a vision model"),
        words="demo example sample image picture vision",
        run=lambda w: w.opener.try_demo(),
        menu="Model",
        icon="eye",
        enabled=lambda w: bundled.is_there(),
    ),
    Command(
        id="model.unload",
        title=tr("Unload the model"),
        words="close eject free memory",
        run=lambda w: w.bench.session.unload(),
        menu="Model",
        icon="eject",
        enabled=lambda w: w.bench.session.status in ("ready", "answering"),
    ),
    Command(
        id="model.cancel_load",
        title=tr("Cancel loading"),
        words="stop abort",
        run=lambda w: w.bench.session.cancel_load(),
        menu="Model",
        icon="close",
        enabled=lambda w: w.bench.session.status == "loading",
    ),
    Command(
        id="device.report",
        title=tr("Device report…"),
        words="gpu cpu hardware diagnostics driver opencl doctor",
        run=lambda w: w.sheets.show_report(),
        menu="Model",
        icon="device",
    ),
    Command(
        id="engine.restart",
        title=tr("Restart the engine"),
        words="reload reset crash",
        run=lambda w: w.bench.session.restart(),
        menu="Model",
        icon="restart",
        enabled=_has_path,
    ),
    Command(
        id="engine.restart_less",
        title=tr("Restart with half the context"),
        words="reload reset memory",
        run=lambda w: w.bench.session.restart(less=True),
        menu="Model",
        icon="restart",
        enabled=_has_path,
    ),
    Command(
        id="chat.new", title=tr("New chat"), run=new_chat, menu="Chat", key="Ctrl+N", icon="plus"
    ),
    Command(
        id="chat.search",
        title=tr("Search chats"),
        words="find history",
        run=search_chats,
        menu="Chat",
        key="Ctrl+K",
        icon="search",
    ),
    Command(
        id="chat.stop",
        title=tr("Stop the answer"),
        words="cancel abort interrupt halt",
        run=lambda w: w.bench.chat.stop(),
        menu="Chat",
        key="Esc",
        icon="stop",
        enabled=lambda w: w.bench.chat.busy,
    ),
    Command(
        id="chat.pair",
        title=tr("Two models side by side…"),
        words="compare arena versus settings temperature same question",
        run=lambda w: w.sheets.show_pair(),
        menu="Chat",
        key="Ctrl+Shift+D",
        icon="compare",
        enabled=_has_model,
    ),
    Command(
        id="chat.regenerate",
        title=tr("Regenerate"),
        words="retry again redo",
        run=lambda w: w.talk.chat.regenerate_last(),
        menu="Chat",
        key="Ctrl+R",
        icon="retry",
        enabled=lambda w: _has_model(w) and _has_messages(w),
    ),
    Command(
        id="chat.edit_last",
        title=tr("Edit the last question"),
        words="change rewrite",
        run=lambda w: w.talk.chat.edit_last(),
        menu="Chat",
        icon="edit",
        enabled=_has_messages,
    ),
    Command(
        id="chat.copy_last",
        title=tr("Copy the last answer"),
        words="clipboard reply response",
        run=lambda w: w.talk.chat.copy_last(),
        menu="Chat",
        key="Ctrl+Shift+C",
        icon="copy",
        enabled=_has_messages,
    ),
    Command(
        id="chat.probabilities",
        title=tr("Token probabilities"),
        words="logprobs confidence entropy colour color likelihood",
        run=lambda w: w.talk.chat.toggle_probabilities(),
        menu="Chat",
        key="Ctrl+P",
        icon="probability",
        checked=lambda w: w.talk.chat.paints_tokens,
    ),
    Command(
        id="chat.sampling",
        title=tr("Sampling and system prompt…"),
        words="settings options parameters temperature top-k top-p min-p penalty seed length",
        run=lambda w: w.talk.show_sampling(),
        menu="Chat",
        key="Ctrl+Shift+S",
        icon="sliders",
    ),
    Command(
        id="chat.prompts",
        title=tr("Insert a saved prompt…"),
        words="library template snippet role reuse",
        run=lambda w: w.talk.composer.show_prompts(),
        menu="Chat",
    ),
    Command(
        id="chat.prompt",
        title=tr("Prompt with the chat template…"),
        words="show raw jinja text",
        run=lambda w: w.sheets.show_prompt(),
        menu="Chat",
        icon="info",
        enabled=_has_model,
    ),
    Command(
        id="chat.pictures",
        title=tr("Attach files…"),
        words="image picture photo document pdf text folder upload add",
        run=lambda w: w.files.choose(),
        menu="Chat",
        key="Ctrl+Shift+A",
        icon="attach",
        enabled=_has_model,
    ),
    Command(
        id="chat.seen",
        title=tr("Picture as the model sees it…"),
        words="image picture vision patches",
        run=lambda w: w.sheets.show_pictures(shown_pictures(w), 0, seen=True),
        menu="Chat",
        icon="eye",
        enabled=lambda w: bool(shown_pictures(w)),
    ),
    Command(
        id="chat.rename",
        title=tr("Rename the chat…"),
        words="title name",
        run=rename_chat,
        menu="Chat",
        key="F2",
        icon="edit",
        enabled=_has_chat,
    ),
    Command(
        id="chat.pin",
        title=tr("Pin the chat"),
        words="favourite star top keep unpin",
        run=lambda w: w.chats.toggle_pin(),
        menu="Chat",
        enabled=_has_chat,
        checked=lambda w: w.chats.is_pinned,
    ),
    Command(
        id="chat.folder",
        title=tr("Move the chat to a folder…"),
        words="group project organise organize sort",
        run=lambda w: w.chats.move_to_folder(),
        menu="Chat",
        icon="folder",
        enabled=_has_chat,
    ),
    Command(
        id="chat.tags",
        title=tr("Tags of the chat…"),
        words="label keyword mark organise organize",
        run=lambda w: w.chats.edit_tags(),
        menu="Chat",
        enabled=_has_chat,
    ),
    Command(
        id="chat.duplicate",
        title=tr("Duplicate the chat"),
        words="copy fork clone",
        run=lambda w: w.chats.duplicate_current(),
        menu="Chat",
        icon="copy",
        enabled=_has_chat,
    ),
    Command(
        id="chat.export",
        title=tr("Export the chat…"),
        words="save download markdown json backup",
        run=lambda w: w.chats.export_current(),
        menu="Chat",
        key="Ctrl+Shift+E",
        icon="upload",
        enabled=_has_chat,
    ),
    Command(
        id="chat.import",
        title=tr("Import chats…"),
        words="load open restore",
        run=lambda w: w.chats.import_file(),
        menu="Chat",
        key="Ctrl+Shift+I",
        icon="download",
    ),
    Command(
        id="chat.delete",
        title=tr("Delete the chat"),
        words="remove trash",
        run=lambda w: w.chats.delete_current(),
        menu="Chat",
        icon="trash",
        enabled=_has_chat,
    ),
    Command(
        id="chat.undo_delete",
        title=tr("Undo the last deletion"),
        words="undo restore recover undelete",
        run=undo_delete,
        menu="Chat",
        key="Ctrl+Z",
        icon="undo",
        enabled=lambda w: w.talk.notices.can_undo or w.bench.chats.has_deleted,
    ),
    *EDITS,
    *VIEW,
    *LAYERS,
    *TOKEN,
    Command(
        id="text.larger",
        title=tr("Larger text"),
        words="text size font zoom in bigger scale",
        run=lambda w: w.looks.scale(1.1),
        menu="Window",
        key="Ctrl++",
    ),
    Command(
        id="text.smaller",
        title=tr("Smaller text"),
        words="text size font zoom out scale",
        run=lambda w: w.looks.scale(1 / 1.1),
        menu="Window",
        key="Ctrl+-",
    ),
    Command(
        id="text.normal",
        title=tr("Normal text"),
        words="text size font zoom reset scale",
        run=lambda w: w.looks.scale(0),
        menu="Window",
        key="Ctrl+0",
    ),
    _theme("system", tr("Theme: match system")),
    _theme("light", tr("Theme: light")),
    _theme("dark", tr("Theme: dark")),
    _theme("contrast", tr("Theme: high contrast")),
    Command(
        id="app.preferences",
        title=tr("Preferences…"),
        words="settings options configuration setup theme font language folder",
        run=lambda w: w.sheets.show_preferences(),
        menu="Window",
        key="Ctrl+,",
        icon="settings",
    ),
    Command(
        id="app.guide",
        title=tr("Guide…"),
        words="help manual documentation words glossary explain how meaning terms",
        run=lambda w: w.sheets.show_guide(w.inspector.front.capitalize()),
        menu="Window",
        key="F1",
        icon="file",
    ),
    Command(
        id="app.news",
        title=tr("What is new…"),
        words="help about version changelog changes release update",
        run=lambda w: w.sheets.show_news(),
        menu="Window",
        icon="info",
    ),
    Command(
        id="app.quit",
        title=tr("Quit"),
        words="exit close end",
        run=lambda w: w.close(),
        menu="Window",
        key="Ctrl+Q",
        icon="close",
    ),
)
