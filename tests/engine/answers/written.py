"""Answers as families of models write them, with what is in them; and calls that are none."""

from engine.answers.passages import Call

WEATHER = Call("get_weather", {"city": "Zürich <b>", "days": 2})
# An answer, and what of it is a thought, text, or a call.
ANSWERS: dict[str, tuple[str, list[object]]] = {
    "plain": (
        "Hi < you >.\n",
        [("answer", "Hi < you >.\n")],
    ),
    "think": (
        "<think>\nHm.\n\nYes </b>\n</think>\n\nHi.",
        [("thought", "Hm.\n\nYes </b>"), ("answer", "Hi.")],
    ),
    "empty": (
        "<think>\n\n</think>\n\nHi",
        [("answer", "Hi")],
    ),
    "never": (
        "<think>Hm </thin",
        [("thought", "Hm </thin")],
    ),
    "like a mark": (
        "<thinking>a <tool_cal",
        [("answer", "<thinking>a <tool_cal")],
    ),
    "mistral": (
        "[THINK]Hm[/THINK]Hi",
        [("thought", "Hm"), ("answer", "Hi")],
    ),
    "gemma": (
        "<|channel>thought\nHm\n<channel|>Hi",
        [("thought", "Hm"), ("answer", "Hi")],
    ),
    "json": (
        'Sure.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich '
        '<b>", "days": 2}}\n</tool_call>',
        [("answer", "Sure."), WEATHER],
    ),
    "two": (
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Zürich <b>", "da'
        'ys": 2}}</tool_call>\n<tool_call>{"name": "now", "parameters": "{}"}</tool'
        "_call> then",
        [WEATHER, Call("now", {}), ("answer", "then")],
    ),
    "xml": (
        "<think>\nHm\n</think>\n\n<tool_call>\n<function=get_weather>\n<parameter=c"
        "ity>\nZürich <b>\n</parameter>\n<parameter=days>\n2\n</parameter>\n</funct"
        "ion>\n</tool_call>",
        [("thought", "Hm"), WEATHER],
    ),
    "pairs": (
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Zürich <b></ar"
        "g_value>\n<arg_key>days</arg_key><arg_value>2</arg_value></tool_call>",
        [WEATHER],
    ),
    "invoke": (
        '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Z'
        'ürich <b></parameter>\n<parameter name="days">2</parameter>\n</invoke>\n<i'
        'nvoke name="now">\n</invoke>\n</minimax:tool_call>',
        [WEATHER, Call("now", {})],
    ),
    "args": (
        'Ok[TOOL_CALLS]get_weather[ARGS]{"city": "Zürich <b>", "days": 2}[TOOL_CALL'
        "S]now[CALL_ID]abc123def[ARGS]{}",
        [("answer", "Ok"), WEATHER, Call("now", {}, "abc123def")],
    ),
    "list": (
        '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Zürich <b>", "'
        'days": 2}, "id": "x"}]',
        [Call("get_weather", WEATHER.arguments, "x")],
    ),
    "deepseek": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n``"
        '`json\n{"city": "Zürich <b>", "days": 2}\n```<｜tool▁call▁end｜><｜tool▁calls'
        "▁end｜>",
        [WEATHER],
    ),
    "deepseek 3.1": (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Zü'
        'rich <b>", "days": 2}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        [WEATHER],
    ),
    "kimi": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|to"
        'ol_call_argument_begin|>{"city": "Zürich <b>", "days": 2}<|tool_call_end|>'
        "<|tool_calls_section_end|>",
        [Call("get_weather", WEATHER.arguments, "functions.get_weather:0")],
    ),
    "python": (
        "Ok <|tool_call_start|>[get_weather(city='Zürich <b>', days=2), now(x=[true"
        ", None, {'a': -1.5}])]<|tool_call_end|>",
        [("answer", "Ok"), WEATHER, Call("now", {"x": [True, None, {"a": -1.5}]})],
    ),
    "cohere": (
        '<|START_THINKING|>Hm<|END_THINKING|><|START_ACTION|>[\n{"tool_call_id": "0'
        '", "tool_name": "get_weather", "parameters": {"city": "Zürich <b>", "days"'
        ": 2}}\n]<|END_ACTION|>",
        [("thought", "Hm"), Call("get_weather", WEATHER.arguments, "0")],
    ),
    "cohere says": (
        "<|START_RESPONSE|>Hi<|END_RESPONSE|>",
        [("answer", "Hi")],
    ),
    "gemma call": (
        '<|tool_call>call:get_weather{city:<|"|>Zürich <b><|"|>,days:2}<tool_call|>',
        [WEATHER],
    ),
    "gemma nested": (
        '<|tool_call>call:f{a:{<|"|>k:1<|"|>:[1,<|"|>x,y:z<|"|>],b:true},c:null}<tool_call|>',
        [Call("f", {"a": {"k:1": [1, "x,y:z"], "b": True}, "c": None})],
    ),
    "harmony": (
        "<|channel|>analysis<|message|>Hm.\n<|end|><|start|>assistant<|channel|>fin"
        "al<|message|>Hi.\n",
        [("thought", "Hm."), ("answer", "Hi.\n")],
    ),
    "harmony call": (
        "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>commen"
        "tary<|message|>Let me look.<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.get_weather <|constrain|>json<|message|>{"city": "Zürich <b>"'
        ', "days": 2}<|call|>',
        [("thought", "Hm"), ("answer", "Let me look."), WEATHER],
    ),
    "harmony other": (
        "<|start|>assistant to=functions.get_weather<|channel|>commentary json<|mes"
        'sage|>{"city": "Zürich <b>", "days": 2}',
        [WEATHER],
    ),
    "recipients": (
        " to=self<|message|>Hm<|eom|><|start|>assistant to=user<|message|>Hi<|eot|>",
        [("thought", "Hm"), ("answer", "Hi")],
    ),
    "recipient calls": (
        ' to=get_weather<|message|><atem:function_calls>\n<atem:invoke name="get_we'
        'ather">\n<atem:parameter name="city">Zürich <b></atem:parameter>\n<atem:pa'
        'rameter name="days">2</atem:parameter>\n</atem:invoke>\n</atem:function_ca'
        "lls><|eot|>",
        [WEATHER],
    ),
}
# All of it is text.
MALFORMED = [
    " to=" + "x" * 300,
    "<tool_call>oops no</tool_call> \n",
    '<tool_call>{"name": 1}</tool_call>',
    '<tool_call>{"name": "f", "arguments": [1]}</tool_call>',
    '<tool_call>{"name": "f", "argum',
    "<tool_call><function=f><parameter=a>1</function></tool_call>",
    "<tool_call>f<arg_key>k</arg_key></tool_call>",
    '<minimax:tool_call><invoke name="f"></minimax:tool_call>',
    "[TOOL_CALLS]f[ARGS]{bad",
    "[TOOL_CALLS]no name[ARGS]{}",
    "<｜tool▁calls▁begin｜>x<｜tool▁calls▁end｜>",
    "<|tool_call_start|>[f(1)]<|tool_call_end|>",
    "<|tool_call_start|>__import__('os').system('x')<|tool_call_end|>",
    "<|tool_call_start|>[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
    "[[[[[[[<|tool_call_end|>",
    '<|tool_call>call:f{a:<|"|>x}<tool_call|>',
    "<|channel|>commentary to=functions.f<|message|>{bad<|call|>",
    "<|channel|>no header at all",
]
