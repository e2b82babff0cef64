<?php // PHP 8: TOKEN=... BASE_URL=... SECRET=... php -S 127.0.0.1:3000 echo.php
function call(string $operation, array $fields): void {
    $head = ["token: " . getenv("TOKEN"), "Content-Type: application/x-www-form-urlencoded"];
    $http = ["method" => "POST", "header" => $head, "content" => http_build_query($fields), "ignore_errors" => true];
    $answer = file_get_contents(getenv("BASE_URL") . "/$operation", false, stream_context_create(["http" => $http]));
    if (!str_contains($http_response_header[0] ?? "", " 200")) error_log("$operation: $answer");
}

if ($_SERVER["REQUEST_METHOD"] !== "POST" || $_SERVER["REQUEST_URI"] !== "/" . getenv("SECRET")) {
    http_response_code(404);
    return;
}
["chat_id" => $chat_id, "type" => $type, "data" => $data] = $_POST;
if ($type === "join") {
    $buttons = json_encode([[["text" => "Press me", "cb_data" => "pressed"]]]);
    call("sendMessage", ["chat_id" => $chat_id, "type" => "text", "data" => "Welcome.", "inline_keyboard" => $buttons]);
} elseif ($type === "text") {
    call("sendMessage", ["chat_id" => $chat_id, "type" => "text", "data" => "You said: $data"]);
} elseif ($type === "triggerButton") {
    $press = json_decode($data);
    call("answerCallback", ["chat_id" => $chat_id, "callback_id" => $press->callback_id, "text" => "Thanks.", "show_alert" => "false"]);
    call("editMessage", ["chat_id" => $chat_id, "message_id" => $press->message_id, "data" => "It is $press->data."]);
}
