// Go 1.18 or newer: TOKEN=... BASE_URL=... SECRET=... PORT=3000 go run echo.go
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"strings"
)

func call(operation string, fields url.Values) {
	request, _ := http.NewRequest("POST", os.Getenv("BASE_URL")+"/"+operation, strings.NewReader(fields.Encode()))
	request.Header.Set("token", os.Getenv("TOKEN"))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Print(operation, ": ", err)
		return
	}
	defer answer.Body.Close()
	if words, _ := io.ReadAll(answer.Body); answer.StatusCode != 200 {
		log.Print(operation, ": ", answer.Status, " ", string(words))
	}
}

func handle(chat, kind, data string) {
	switch kind {
	case "join":
		buttons := `[[{"text": "Press me", "cb_data": "pressed"}]]`
		call("sendMessage", url.Values{"chat_id": {chat}, "type": {"text"}, "data": {"Welcome."}, "inline_keyboard": {buttons}})
	case "text":
		call("sendMessage", url.Values{"chat_id": {chat}, "type": {"text"}, "data": {"You said: " + data}})
	case "triggerButton":
		var press struct {
			Data       string      `json:"data"`
			MessageID  json.Number `json:"message_id"`
			CallbackID string      `json:"callback_id"`
		}
		if err := json.Unmarshal([]byte(data), &press); err != nil {
			log.Print(err)
			return
		}
		call("answerCallback", url.Values{"chat_id": {chat}, "callback_id": {press.CallbackID}, "text": {"Thanks."}, "show_alert": {"false"}})
		call("editMessage", url.Values{"chat_id": {chat}, "message_id": {press.MessageID.String()}, "data": {fmt.Sprintf("It is %s.", press.Data)}})
	}
}

func main() {
	events := make(chan [3]string, 1000) // one after the other, in the order in which they came
	go func() {
		for event := range events {
			handle(event[0], event[1], event[2])
		}
	}()
	http.HandleFunc("/"+os.Getenv("SECRET"), func(_ http.ResponseWriter, request *http.Request) {
		events <- [3]string{request.PostFormValue("chat_id"), request.PostFormValue("type"), request.PostFormValue("data")}
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
